"""Whole programs, run by torch alone and then with shardprop: equal to the bit, on every rank.

compare      one program run twice in this process, and what differs
near         likewise under policy `optimal`, near to torch's whole results
outcome      results as plain bits       check    what a test asserts of a comparison
pool         real gloo processes         world    meshes and weights, the same on every rank

Programs are module-level functions that return their results by name. They run on whatever
process group is there: the pool's four gloo ranks where values must be right, or the session's
fake group where deciding alike is the point.
"""
