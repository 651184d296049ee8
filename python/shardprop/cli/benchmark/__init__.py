"""`shardprop bench`: torch's propagation beside shardprop's, in one process and one run.

cases     the questions               measuring  both sides in turns, answers compared
request   what was asked for, checked report     what is printed
"""
