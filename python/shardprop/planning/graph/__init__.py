"""Whole-graph sharding problems: one label per node, least cost, with a proof (docs/graph.md)."""

from .errors import InfeasibleError, UnsolvedError
from .evaluation import Evaluation
from .instances import load_instance
from .problem import Problem
from .solution import Solution
from .solving import solve

__all__ = [
    "Evaluation",
    "InfeasibleError",
    "Problem",
    "Solution",
    "UnsolvedError",
    "load_instance",
    "solve",
]
