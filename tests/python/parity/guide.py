"""Layouts that torch's own rules suggest.

Placements drawn at random almost never match a row of the rule, so cases made of them alone would
never reach the branches "nothing to redistribute", "one operand to fix" and, for in-place and out=
ops, anything but an error. So most layouts start from rows of the op's rule, one per mesh dim.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch._ops import OpOverload
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor._dtensor_spec import TensorMeta
from torch.distributed.tensor._ops.single_dim_strategy import (
    _resolve_foreach_elementwise_overload,
    _ShardingPlaceholder,
)
from torch.distributed.tensor.placement_types import Placement, _StridedShard

from .guide_full_mesh import Row, full_mesh_rows
from .meshes import MeshKey
from .registry import Form, form_of, propagator
from .sketch import Problem, Sketch, map_leaves


@dataclass(frozen=True, slots=True)
class Group:
    """One decision inside a case: a list op decides once per list position, others once.

    ``operands`` are indices into the operands of the problem; ``rows`` are what the rule allows on
    one mesh dim, one entry per operand of the group (outputs are cut off). Without a single-dim
    rule they are worth trying, no more, and ``choices`` says how many torch really chooses from.
    """

    operands: tuple[int, ...]
    rows: tuple[Row, ...]
    outputs: int
    choices: int | None = None


def groups_of(problem: Problem) -> list[Group]:
    """The decisions of a problem."""
    if form_of(problem.op) is not Form.LIST:
        every = tuple(range(len(problem.sketches())))
        return [_group(problem, every, problem.op, problem.args)]
    op = _resolve_foreach_elementwise_overload(problem.op) or problem.op
    length = next(len(arg) for arg in problem.args if _is_tensor_list(arg))
    groups = []
    for position in range(length):
        operands: list[int] = []
        start = 0
        for value in (*problem.args, *problem.kwargs.values()):
            if _is_tensor_list(value):
                operands.append(start + position)
                start += len(value)
            elif isinstance(value, Sketch):
                operands.append(start)
                start += 1
        args = tuple(arg[position] if _is_tensor_list(arg) else arg for arg in problem.args)
        groups.append(_group(problem, tuple(operands), op, args))
    return groups


def _group(
    problem: Problem, operands: tuple[int, ...], op: OpOverload, args: tuple[object, ...]
) -> Group:
    info = propagator().op_single_dim_strategy_funcs.get(problem.op)
    if info is None:
        if len(operands) < len(problem.sketches()):
            return Group(operands, (), 0)  # list ops of one list: nothing to fit together
        whole_rows, choices = full_mesh_rows(problem)
        return Group(operands, whole_rows, 0, choices)
    kwargs = {name: _as_meta(value) for name, value in problem.kwargs.items()}
    try:
        rows = info.func(op, tuple(_as_meta(arg) for arg in args), kwargs)
    except Exception:  # the rule refuses these arguments: torch will say so, layouts stay random
        return Group(operands, (), 0)
    if not rows or len(rows[0]) < len(operands):
        return Group(operands, (), 0)
    outputs = len(rows[0]) - len(operands)
    return Group(operands, tuple(tuple(row[outputs:]) for row in rows), outputs)


def fill_row(row: Row, split_factor: int | None) -> list[Placement]:
    """A row with its placeholders filled, all of them in the same way."""
    filled: list[Placement] = []
    for entry in row:
        if isinstance(entry, _ShardingPlaceholder):
            filled.append(
                Shard(entry.dim)
                if split_factor is None
                else _StridedShard(entry.dim, split_factor=split_factor)
            )
        else:
            filled.append(entry if isinstance(entry, Placement) else Replicate())
    return filled


def guided(
    rng: random.Random,
    group: Group,
    mesh: MeshKey,
    shapes: Sequence[tuple[int, ...]],
    split_factors: Sequence[int | None],
    fitting: bool,
) -> list[tuple[Placement, ...]]:
    """Placements of the group's operands that match some strategy of the op.

    `split_factors` are the ways to fill placeholders, None for a plain Shard. With `fitting`, only
    rows are taken that give every rank a piece of every operand, as torch asks of a strategy.
    """
    per_operand: list[list[Placement]] = [[] for _ in group.operands]
    for _ in range(mesh.ndim):
        row: list[Placement] = [Replicate()] * len(group.operands)
        for _ in range(4 if group.rows and rng.random() < 0.88 else 0):
            drawn = fill_row(rng.choice(group.rows), rng.choice(split_factors))
            candidate = [[*before, new] for before, new in zip(per_operand, drawn, strict=True)]
            if not fitting or all(map(functools.partial(_fits, mesh.sizes), shapes, candidate)):
                row = drawn
                break
        for placements, placement in zip(per_operand, row, strict=True):
            placements.append(placement)
    return [tuple(placements) for placements in per_operand]


def _fits(mesh_sizes: tuple[int, ...], shape: tuple[int, ...], placements: list[Placement]) -> bool:
    """torch's is_tensor_shardable."""
    parts = [1] * len(shape)
    for size, placement in zip(mesh_sizes, placements, strict=False):
        if isinstance(placement, (Shard, _StridedShard)):
            if placement.dim >= len(shape):
                return False
            parts[placement.dim] *= size
            if shape[placement.dim] < parts[placement.dim] * getattr(placement, "split_factor", 1):
                return False
    return True


def _is_tensor_list(value: object) -> TypeGuard[Sequence[Sketch]]:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Sketch)


def _as_meta(value: object) -> object:
    if isinstance(value, list) and value and all(isinstance(item, Sketch) for item in value):
        value = tuple(value)  # torch turns lists of tensors alone into tuples
    return map_leaves(Sketch, _meta, value)


def _meta(sketch: Sketch) -> TensorMeta:
    return TensorMeta(torch.Size(sketch.shape), sketch.stride, sketch.dtype)
