"""The rows of the shipped book: they hold on calls that it was not made of, and they run."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator

import pytest
import torch

import shardprop
from shardprop import _torch
from shardprop.rules.book.book import Book
from shardprop.rules.book.entry import Entry
from shardprop.verification.book.prove import may_have_rows, with_other_numbers
from shardprop.verification.book.trial import Trial
from shardprop.verification.calls.call import Call
from shardprop.verification.calls.samples import Samples
from shardprop.verification.names import ops_decided
from shardprop.verification.simulator.execution import Executable
from shardprop.verification.simulator.partials import Untestable
from shardprop.verification.simulator.simulation import Row
from shardprop.verification.texts import call_text, row_text
from shardprop.verification.validate.dtensor_run import OneDevice, Run, carried_out

from ...specs import P

pytestmark = pytest.mark.slow

SEED = 20261128
"""No book was made by it."""

Claims = list[tuple[_torch.OpOverload, Entry]]


@pytest.fixture(scope="module")
def claims() -> Claims:
    """All rows of ops that this torch has."""
    ops = {str(op): op for op in ops_decided()}
    shipped = Book.shipped().entries
    return [
        (ops[name], entry) for name, entries in shipped.items() if name in ops for entry in entries
    ]


@pytest.fixture(scope="module")
def samples(claims: Claims) -> Samples:
    return Samples({op for op, _ in claims}, SEED, every_sample=True, every_call=True)


def _of_its_kind(op: _torch.OpOverload, entry: Entry, samples: Samples) -> Iterator[Trial]:
    """The calls for which an entry's row is said to hold."""
    for call in with_other_numbers(samples.calls(op)):
        try:
            trial = Trial(call, SEED)
        except Exception:  # the op does not take these numbers, or it has no elements
            continue
        is_of_its_kind = (
            trial.operands == entry.operands
            and entry.inputs in set(trial.inputs())
            and entry.outputs in set(trial.outputs())
            and (entry.zero is None or entry.zero in trial.zeros)
        )
        if is_of_its_kind:
            yield trial


def test_random_rows_hold_on_other_calls(claims: Claims, samples: Samples) -> None:
    tried = told = 0
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for op, entry in random.Random(SEED).sample(claims, min(100, len(claims))):
            for trial in _of_its_kind(op, entry, samples):
                tried += 1
                told += trial.tells(entry.inputs)
                assert not trial.refutes(entry.inputs, entry.outputs), call_text(trial.call)
    assert tried > 300 and told > 200


def test_every_row_runs(claims: Claims, samples: Samples) -> None:
    """Under policy optimal, on operands that are as the row wants them: what two ranks hold is what
    one device has, and nothing was reduced before."""
    kept = ran = 0
    with warnings.catch_warnings(), shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        warnings.simplefilter("ignore")
        for op, entry in claims:
            for trial in _of_its_kind(op, entry, samples):
                outputs = _run(trial.call, entry) if trial.tells(entry.inputs) else None
                if outputs is not None:
                    ran += 1
                    kept += outputs == [(p,) for p in entry.outputs if p is not None]
                    break
    assert ran > 0.8 * len(claims) and kept > 0.8 * ran, (len(claims), ran, kept)


def _run(call: Call, entry: Entry) -> list[object] | None:
    """Layouts of the outputs; None where one process cannot say."""
    executable = Executable(call)
    try:
        whole = OneDevice(executable, SEED)
        layouts = tuple((placement,) for placement in entry.inputs)
        made, fault = carried_out(whole, Run(call, (2,), layouts), SEED)
    except Untestable:
        return None
    assert fault is None, (
        f"{row_text(Row(entry.outputs, entry.inputs))}: {call_text(call)}: {fault}"
    )
    return [layout for layout in made.layouts if layout is not None] if made.has_run else None


def test_each_row_says_something() -> None:
    """Something that is pending goes in, and comes out."""
    for entries in Book.shipped().entries.values():
        for entry in entries:
            kinds = [{str(p) for p in cells} for cells in (entry.inputs, entry.outputs)]
            assert all("P(sum)" in each and each <= {"P(sum)", "R", "None"} for each in kinds)
            assert entry.calls >= 2 and entry.runs > 0
    assert Book.in_force() is Book.shipped()


def test_no_op_that_draws_random_numbers_is_in_the_book(claims: Claims) -> None:
    assert all(may_have_rows(op) for op, _ in claims)


def test_what_torchs_rules_lack_most_is_there() -> None:
    """Each row of operands that are all pending, but for those that are whole."""
    aten = torch.ops.aten
    for op, operands, zero in (
        (aten.where.self, ("condition",), None),
        (aten.lerp.Scalar, (), None),
        (aten.masked_fill.Scalar, ("mask",), "value"),
        (aten.tril.default, (), None),
        (aten.native_dropout_backward.default, ("mask",), None),
        (aten.threshold_backward.default, ("self",), None),
        (aten.gelu_backward.default, ("self",), None),
        (aten.silu_backward.default, ("self",), None),
        (aten._softmax_backward_data.default, ("output",), None),
        (aten.clone.default, (), None),
        (aten.mean.dim, (), None),
        (aten.cumsum.default, (), None),
        (aten.constant_pad_nd.default, (), "value"),
    ):
        pending = [
            {name for name, cell in zip(each.operands, each.inputs, strict=True) if cell == P}
            | set(operands)
            for each in Book.shipped().entries.get(str(op), ())
            if each.zero == zero
        ]
        names = [set(each.operands) for each in Book.shipped().entries.get(str(op), ())]
        assert any(every in pending for every in names), op
