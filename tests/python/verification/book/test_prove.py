"""Which rows of pending sums are proved, of ops whose formula is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Placement

from shardprop.rules.book.entry import Entry
from shardprop.verification.book.prove import prove
from shardprop.verification.calls.call import Call

from ...specs import P, R

aten = torch.ops.aten


def _calls(op: Any, *more: Any, count: int = 3) -> Iterator[Call]:
    for rows in range(2, 2 + count):
        yield Call(op, (torch.ones(2 * rows, 6), *more))


def _rows(entries: list[Entry]) -> list[tuple[tuple[Placement, ...], object]]:
    return [(each.inputs, each.argument and (each.argument, each.value)) for each in entries]


def test_a_linear_op() -> None:
    report = prove(aten.tril.default, _calls(aten.tril.default))
    (entry,) = report.entries
    assert (entry.operands, entry.inputs, entry.outputs) == (("self",), (P,), (P,))
    assert entry.calls == report.calls == 3 and entry.runs > 0


@pytest.mark.parametrize(
    "op", [aten.relu.default, aten.exp.default, aten.nan_to_num.default], ids=str
)
def test_an_op_that_is_none(op: Any) -> None:
    """That of NaN is linear on numbers, and a sum that is NaN has a part that is none."""
    report = prove(op, _calls(op))
    assert report.calls == 3 and report.entries == []


def test_a_row_that_depends_on_a_value() -> None:
    """0 is tried where no call has it."""
    op = aten.masked_fill.Scalar
    mask = torch.arange(36).reshape(6, 6) % 3 == 0
    calls = [Call(op, (torch.ones(6, 6), mask, value)) for value in (2.0, 3.0)]
    assert _rows(prove(op, calls).entries) == [((P, R), ("value", 0.0))]


def test_one_call_proves_nothing() -> None:
    assert prove(aten.tril.default, _calls(aten.tril.default, count=1)).entries == []


def test_what_is_written_anew_has_no_rows() -> None:
    calls = [Call(aten.tril.out, (torch.ones(4, 6),), {"out": torch.ones(4, 6)})] * 2
    assert prove(aten.tril.out, calls).entries == []


def test_a_call_that_raises_is_counted() -> None:
    report = prove(aten.mm.default, [Call(aten.mm.default, (torch.ones(2, 3), torch.ones(2, 3)))])
    assert report.calls == 0 and report.skipped == {"the op raises RuntimeError": 1}


def test_nothing_is_proved_after_the_time_limit() -> None:
    report = prove(aten.tril.default, _calls(aten.tril.default), deadline=0.0)
    assert report.error == "time limit" and report.entries == []
