"""Prices of all-gathers, reduce-scatters and all-reduces as NCCL's own tuner has them.

NCCL chooses an algorithm and a protocol for each call by a model of its own. This is that model,
read from NCCL 2.30.7 (commit 73cf112, the version that torch 2.13 ships for CUDA 13): the tables
and formulas of src/graph/tuning.cc, and what src/graph/search.cc finds on nodes whose devices all
have the same links. docs/cost-models.md tells what is read, what is assumed and what is left out.
"""

from .machine import Architecture, Cpu, LinkKind, Machine, Wiring
from .prices import piecewise_price

__all__ = ["Architecture", "Cpu", "LinkKind", "Machine", "Wiring", "piecewise_price"]
