"""Programs of DTensors without DTensors at run time.

`erase` has torch.compile follow a program; `backend` makes of each graph that it finds local ops
and collectives (`_torch/joint_graphs.py`), cleans them (`passes/`), writes them as Python
(`generated`), and runs that on what this rank holds (`runtime`). `pieces` is what is said of it.
"""

from __future__ import annotations

from .absent import beside_a_loss
from .erased import Erased, erase
from .footprint import Footprint, footprint_of
from .passes import NO_TIME, PASSES, ROUNDING_PASSES, Duration, Durations
from .pieces import LocalGraphs, Piece
from .torch_backend import Backend, backend

__all__ = [
    "NO_TIME",
    "PASSES",
    "ROUNDING_PASSES",
    "Backend",
    "Duration",
    "Durations",
    "Erased",
    "Footprint",
    "LocalGraphs",
    "Piece",
    "backend",
    "beside_a_loss",
    "erase",
    "footprint_of",
]
