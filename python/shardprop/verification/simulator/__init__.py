"""The ranks of a mesh in one process: what they hold, what an op makes of it, which rows hold."""
