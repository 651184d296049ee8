"""How tests of the oracle ask: short ways to write problems and to read moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.distributed.tensor import Partial, Placement
from torch.distributed.tensor._ops._math_ops import _NormPartial
from torch.distributed.tensor.placement_types import _MaskPartial

from shardprop.cost.cost_model import COLLECTIVES, CostModel, GroupCosts, LinearPrice
from shardprop.model.plan_steps import Layout

from .moves import Move, Problem
from .state import (
    State,
    layout_of,
    left_to_right,
    state_of,
)

MAX = Partial("max")
AVG = Partial("avg")
NORM = _NormPartial(2)
MASK = _MaskPartial(offset_shape=torch.Size((8, 4)), offset_dim=0)
# 64 MiB of float32.
SQUARE = (4096, 4096)


def by_bytes(
    sizes: Sequence[int], groups: Sequence[tuple[int, ...]] = (), **others: object
) -> CostModel:
    """A byte on the wire takes a picosecond; local work is free."""
    alone = [(m,) for m, size in enumerate(sizes) if size > 1]
    line = LinearPrice(fixed_us=0.0, us_per_byte=1e-6)
    costs = tuple(GroupCosts(group, (line,) * len(COLLECTIVES)) for group in [*alone, *groups])
    model = CostModel(tuple(sizes), costs, kernel_us=0.0, memory_us_per_byte=0.0)
    return replace(model, **others)  # type: ignore[arg-type]


def asked(
    model: CostModel,
    source: Layout | Sequence[Placement],
    target: Layout | Sequence[Placement],
    shape: tuple[int, ...] = SQUARE,
    itemsize: int = 4,
    memory_limit: int | None = None,
) -> tuple[Problem, State]:
    """The problem and where it starts."""
    ends = [
        state_of(end if isinstance(end, Layout) else left_to_right(end), model.sizes, len(shape))
        for end in (source, target)
    ]
    return Problem(model, shape, itemsize, ends[1], memory_limit), ends[0]


def only(found: Sequence[Move], kind: str, *, to: Sequence[Placement] | None = None) -> Move:
    """The one move of its kind (and to these placements)."""
    fitting = [
        move
        for move in found
        if move.kind == kind and (to is None or layout_of(move.after).placements == tuple(to))
    ]
    assert len(fitting) == 1, found
    return fitting[0]


def work(move: Move) -> tuple[int, int, int, int]:
    return move.wire, move.kernels, move.traffic, move.staging
