"""Faults of torch's decisions that shardprop puts right: one file for each."""
