"""Prices as NCCL's tuner has them."""
