"""`shardprop calibrate`: the processes that `calibrate` measures, started here or by torchrun.

request   what was asked for, checked    processes  of torchrun, or local ones
report    what is printed and written
"""
