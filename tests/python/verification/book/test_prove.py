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
from shardprop.verification.calls.samples import Samples

from ...specs import P, R

aten = torch.ops.aten


def _calls(op: Any, *more: Any, count: int = 3) -> Iterator[Call]:
    for rows in range(2, 2 + count):
        yield Call(op, (torch.ones(2 * rows, 6), *more))


def _rows(entries: list[Entry]) -> list[tuple[tuple[Placement, ...], str | None]]:
    return [(each.inputs, each.zero) for each in entries]


def test_a_linear_op() -> None:
    report = prove(aten.tril.default, _calls(aten.tril.default))
    (entry,) = report.entries
    assert (entry.operands, entry.inputs, entry.outputs) == (("self",), (P,), (P,))
    assert entry.calls == report.calls == 3 and entry.runs > 0


@pytest.mark.parametrize(
    ("op", "calls"),
    # That of NaN has three numbers that are left out, each of which is tried as 0 and as another.
    [(aten.relu.default, 3), (aten.exp.default, 3), (aten.nan_to_num.default, 3 * 7)],
    ids=str,
)
def test_an_op_that_is_none(op: Any, calls: int) -> None:
    """That of NaN is linear on numbers, and a sum that is NaN has a part that is none."""
    report = prove(op, _calls(op))
    assert report.calls == calls and report.entries == []


def test_a_row_that_depends_on_a_value() -> None:
    """0 is tried where no call has it."""
    op = aten.masked_fill.Scalar
    masks = [torch.arange(6 * rows).reshape(rows, 6) % 3 == 0 for rows in (4, 6)]
    calls = [Call(op, (torch.ones(mask.shape), mask, 2.0)) for mask in masks]
    assert _rows(prove(op, calls).entries) == [((P, R), "value")]


def test_a_number_that_is_left_out_is_tried() -> None:
    """A constant that is padded with is 0 where it is not given."""
    op = aten._pad_enum.default
    calls = [Call(op, (torch.ones(4, size), [1, 2], 3)) for size in (4, 6, 8)]
    assert _rows(prove(op, calls).entries) == [((P,), "value")]


def test_other_modes_are_tried() -> None:
    """Calls that sum and average bags tell nothing of their largest elements."""
    op = aten.embedding_bag.padding_idx
    indices, offsets = torch.arange(12), torch.tensor([0, 3, 6, 8])
    calls = [
        Call(op, (torch.ones(12, size), indices, offsets, False, mode, False, None, False, None))
        for size in (4, 6)
        for mode in (0, 1)
    ]
    assert _rows(prove(op, calls).entries) == []


def test_calls_that_differ_in_values_alone_are_one() -> None:
    calls = [Call(aten.neg.default, (torch.full((4, 6), value),)) for value in (1.0, 2.0)]
    assert prove(aten.neg.default, calls).entries == []


def test_one_call_refutes_what_others_show() -> None:
    """Along a dim of one element a logarithm of a sum of exponentials is the element itself."""
    op = aten.logsumexp.default
    thin = [Call(op, (torch.ones(rows, 1), [1], True)) for rows in (4, 6, 8)]
    assert prove(op, thin).entries == []
    wide = [Call(op, (torch.ones(rows, 4), [1], True)) for rows in (4, 6)]
    assert prove(op, [*thin, *wide]).entries == []


def test_what_nobody_can_say_of_a_call_proves_nothing() -> None:
    """The rows of the others are for calls with the same operands, and this is one."""
    op = aten.remainder.Scalar
    assert prove(op, [Call(op, (torch.ones(rows, 6), 2.0)) for rows in (4, 6, 8)]).entries == []


NOT_LINEAR = (
    aten.remainder.Scalar,
    aten.remainder_.Scalar,
    aten.ne.Scalar,
    aten.ne.Tensor,
    aten.eq_.Tensor,
    aten.logsumexp.default,
    aten.normal_.default,
    aten.exponential_.default,
    aten.index_reduce.default,
    aten.scatter_reduce.two,
    aten.nextafter.default,
    aten.linalg_det.default,
    aten.aminmax.default,
    aten.quantile.scalar,
    aten.isclose.default,
    aten.clip_.default,
    aten.floor_divide.default,
    aten.fmod_.Scalar,
    aten.dropout.default,
    aten.normal.Tensor_float,
    aten.bernoulli_.float,
)
"""Of each, some calls alone look as if they were; the book had rows of them once."""


@pytest.fixture(scope="module")
def samples() -> Samples:
    return Samples(NOT_LINEAR, every_sample=True, every_call=True)


@pytest.mark.slow
@pytest.mark.parametrize("op", NOT_LINEAR, ids=str)
def test_what_is_not_linear_has_no_rows(op: Any, samples: Samples) -> None:
    calls = samples.calls(op)
    assert calls
    assert [each for each in prove(op, calls).entries if set(each.inputs) == {P}] == []


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
