"""Public functions of torch on sharded operands, in value and gradient, against one device.

samples     calls of functions      layouts     where their operands lie
outcome     what ranks make of one, and whether it is right
"""
