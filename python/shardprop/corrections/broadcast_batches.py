"""Solvers of batches of which one operand has fewer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._torch import DTensorSpec, OpOverload, OpSchema, TensorMeta
from .correction import CallCorrection
from .operands import operands, shards_dim

if TYPE_CHECKING:
    from ..rules.kept_rows import RowCall

aten = torch.ops.aten

_TRIANGULAR = (aten.linalg_solve_triangular.default, aten.linalg_solve_triangular.out)
# The second operand has one number for each column of the first: pivots, or scalar factors.
_WITH_VECTORS = (
    aten.linalg_householder_product.default,
    aten.linalg_ldl_solve.default,
    aten.linalg_ldl_solve.out,
    aten.linalg_lu_solve.default,
    aten.lu_unpack.default,
    aten.ormqr.default,
)
_OPS = (
    *_TRIANGULAR,
    *_WITH_VECTORS,
    aten._linalg_solve_ex.default,
    aten.cholesky_solve.default,
    aten.triangular_solve.default,
)


def _concerns(schema: OpSchema) -> bool:
    specs = [*operands(schema)]
    if all(spec.is_replicated() for spec in specs):
        return False
    first, *others = _batches(schema.op, specs)
    # Among torch's rows of a triangular matrix are some that leave it whole where it has to be cut.
    is_apart = schema.op in _TRIANGULAR and len({spec.placements for spec in specs}) > 1
    return is_apart or any(each != first for each in others)


def _batches(op: OpOverload, given: Sequence[DTensorSpec | TensorMeta]) -> list[list[int | None]]:
    """Per operand the sizes of its dims of batches; None for one that is symbolic, which is not to
    be guarded."""
    shapes = [tuple(each.shape) for each in given]
    own = [2] * len(shapes)
    if len(own) > 1 and (op in _WITH_VECTORS or _solves_vectors(op, *shapes[:2])):
        own[1] = 1
    return [
        [size if type(size) is int else None for size in shape[: len(shape) - dims]]
        for shape, dims in zip(shapes, own, strict=True)
    ]


def _solves_vectors(op: OpOverload, matrix: tuple[int, ...], side: tuple[int, ...]) -> bool:
    """Does ``linalg.solve`` take its right-hand side for vectors?"""
    return op is aten._linalg_solve_ex.default and (len(side) == 1 or side == matrix[:-1])


def _keeps(row: Sequence[Any], call: RowCall) -> bool:
    """Is each operand cut along the dim that the output is cut along, and has all of that, as the
    others have; or, of a triangular matrix, none of it?"""
    cells = call.operands_of(row)
    batches = _batches(call.op, call.tensors)
    for dim in range(max(map(len, batches))):
        if not shards_dim(row[0], dim):
            continue
        if all(shards_dim(cell, dim) for cell in cells):
            return all(each == batches[0] for each in batches)
        matrix, *sides = batches
        from_right = len(sides[0]) - dim if sides else 0
        is_less = len(matrix) < from_right or matrix[-from_right] == 1 != sides[0][dim]
        return bool(sides) and len(matrix) <= len(sides[0]) and is_less
    return True


BROADCAST_BATCHES = CallCorrection(
    name="batches that are broadcast",
    ops=_OPS,
    concerns=_concerns,
    fault="cuts operands along a dim of one number, though they have other batches: of a matrix "
    "that has but one, of a right-hand side where the matrix has all of them, or of one with more "
    "dims. Ranks solve for matrices that are not theirs, and some raise while the others wait.",
    right="cuts operands of the same batches alone, and a triangular matrix not where it is "
    "broadcast.",
    ends="rows of torch's own that compare the sizes of batches.",
    in_rows=_OPS,
    keeps=_keeps,
)
