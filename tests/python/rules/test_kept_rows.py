"""A call and its rows, as what leaves rows out is asked of them."""

from __future__ import annotations

import torch

from shardprop.rules.kept_rows import RowCall

from ..specs import P, R, S, meta_of

aten = torch.ops.aten


def test_operands_stand_between_outputs_and_what_is_given_by_keyword() -> None:
    left, right, out = (meta_of(shape) for shape in ((4, 2), (2, 6), (4, 6)))
    call = RowCall(aten.mm.out, (left, right), {"out": out})
    assert call.tensors == [left, right]
    assert list(call.operands_of([S(0), S(0), R, S(0)])) == [S(0), R]


def test_operands_in_lists_have_a_cell_each() -> None:
    first, second = (meta_of((size,)) for size in (4, 6))
    call = RowCall(aten._foreach_add.Scalar, ([first, second], 2), {})
    assert call.tensors == [first, second]
    assert list(call.operands_of([S(0), P, S(0), P])) == [S(0), P]
