"""Solvers of batches of which one operand has fewer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._torch import DTensorSpec, OpSchema, TensorMeta
from .correction import CallCorrection
from .operands import operands, shards_dim

aten = torch.ops.aten

_OPS = (
    aten.linalg_solve_triangular.default,
    aten.linalg_solve_triangular.out,
    aten.linalg_ldl_solve.default,
    aten.linalg_ldl_solve.out,
)


def _concerns(schema: OpSchema) -> bool:
    specs = [*operands(schema)]
    first, *others = (_batches(spec) for spec in specs if spec.ndim > 1)
    return any(each != first for each in others) or len({spec.placements for spec in specs}) > 1


def _batches(spec: DTensorSpec) -> list[int | None]:
    """Sizes of the dims of batches; None for one that is symbolic, which is not to be guarded."""
    return [size if type(size) is int else None for size in spec.shape[:-2]]


def _keeps(row: Sequence[Any], args: tuple[Any, ...]) -> bool:
    """Is each operand cut along the dim that the output is cut along, if it has it in full?"""
    given = [arg for arg in args if isinstance(arg, TensorMeta)]
    ndim = max(len(meta.shape) for meta in given)
    return all(
        shards_dim(cell, dim) is (shards_dim(row[0], dim) and _has(meta, dim, ndim, given))
        for meta, cell in zip(given, row[1:], strict=False)
        for dim in range(ndim - 2)
    )


def _has(meta: TensorMeta, dim: int, ndim: int, given: Sequence[TensorMeta]) -> bool:
    """Is the dim there, and not to be broadcast? (A symbolic size is taken for one that is not.)"""
    if len(meta.shape) < ndim:
        return False
    sizes = [each.shape[dim] for each in given if len(each.shape) == ndim]
    return any(type(size) is not int for size in sizes) or meta.shape[dim] == max(sizes)


BROADCAST_BATCHES = CallCorrection(
    name="batches that are broadcast",
    ops=_OPS,
    concerns=_concerns,
    fault="cuts batches of the right-hand side where the matrix has all of them, or of a matrix "
    "that has but one: ranks solve for matrices that are not theirs, and some raise while the "
    "others wait.",
    right="cuts each operand that has as many batches as the result, and no other.",
    ends="rows of torch's own that compare the sizes of batches.",
    in_rows=_OPS,
    keeps=_keeps,
)
