"""Rows for ops without a single-dim rule: what torch's own full-mesh strategy answers on one dim.

Such a strategy only shows its choices for operands laid out somehow, so it is asked about operands
that are all sharded alike, all replicated or all partial, on a mesh of one dim. Where torch has no
strategy either, these alike rows are all there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor._op_schema import OpStrategy
from torch.distributed.tensor._ops.single_dim_strategy import _ShardingPlaceholder
from torch.distributed.tensor.placement_types import Placement

from ..quiet import quiet
from .case import Case
from .layouts import Kind, Layout, Operand
from .meshes import MeshKey
from .registry import propagator
from .sketch import Problem, Sketch, map_leaves

Row = tuple[object, ...]

_MESH = MeshKey((2,))


def full_mesh_rows(problem: Problem) -> tuple[tuple[Row, ...], int]:
    """Rows for all operands of the problem, what is sharded as placeholders; and how many of them
    torch chooses from on each mesh dim (one, for an op that just follows its operands)."""
    tried: dict[Row, None] = {}
    answered: dict[Row, None] = {}
    choices = 1
    for alike in _alike(problem.sketches()):
        tried[tuple(map(_open, alike))] = None
        answers = [tuple(map(_open, answer)) for answer in _asked(problem, alike)]
        choices = max(choices, len(answers))
        answered |= dict.fromkeys(answers)
    if choices > 1:
        return tuple(answered), choices
    rows = tuple(tried | answered)
    has_strategy = problem.op in propagator().op_strategy_funcs
    return rows, 1 if has_strategy else len(rows)  # a decomposition has all that work out


def _alike(sketches: Sequence[Sketch]) -> Iterator[tuple[Placement, ...]]:
    yield (Replicate(),) * len(sketches)
    for reduction in ("sum", "avg"):
        yield (Partial(reduction),) * len(sketches)
    for dim in range(max((sketch.ndim for sketch in sketches), default=0)):
        yield tuple(Shard(dim) if dim < sketch.ndim else Replicate() for sketch in sketches)


def _asked(problem: Problem, placements: Sequence[Placement]) -> Iterator[tuple[Placement, ...]]:
    """What torch's strategy would have its operands be, if they come with these placements."""
    strategy = propagator().op_strategy_funcs.get(problem.op)
    if strategy is None:
        return
    remaining = iter(placements)

    def place(sketch: Sketch) -> Operand:
        return Operand(sketch, Layout(_MESH, (next(remaining),)))

    args = tuple(map_leaves(Sketch, place, arg) for arg in problem.args)
    kwargs = {name: map_leaves(Sketch, place, value) for name, value in problem.kwargs.items()}
    case = Case(problem.op, args, kwargs, _MESH, "", Kind.PLAIN)
    with quiet():
        try:
            answer: Any = strategy(propagator()._wrap_with_op_strategy(case.schema()))
        except Exception:  # it refuses these arguments or placements
            return
    for choice in answer.strategies if isinstance(answer, OpStrategy) else ():
        specs = choice.input_specs
        if specs is not None and len(specs) == len(placements):
            yield tuple(spec.placements[0] for spec in specs)


def _open(placement: object) -> object:
    return _ShardingPlaceholder(placement.dim) if isinstance(placement, Shard) else placement
