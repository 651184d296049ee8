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
from shardprop.verification.book.prove import of_its_kind, seen_of
from shardprop.verification.calls.call import Call
from shardprop.verification.calls.samples import Samples
from shardprop.verification.names import ops_decided
from shardprop.verification.simulator.execution import Executable
from shardprop.verification.simulator.partials import Untestable
from shardprop.verification.simulator.simulation import Row
from shardprop.verification.texts import call_text, row_text
from shardprop.verification.validate.dtensor_run import OneDevice, Run, carried_out

pytestmark = pytest.mark.slow

SEED = 20261127
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
    return Samples({op for op, _ in claims}, SEED, every_sample=True)


def _row(entry: Entry) -> Row:
    return Row(entry.outputs, entry.inputs)


def _against(op: _torch.OpOverload, entry: Entry, samples: Samples) -> Iterator[str | None]:
    """For each call whether the row does not hold, in words; None if it does."""
    row = _row(entry)
    for number, call in enumerate(of_its_kind(op, entry, samples.calls(op))):
        try:
            seen = [*seen_of(call, number, SEED)]
        except Exception:  # the op does not take these numbers
            continue
        fails = any(each.contradicts(row) for each in seen)
        yield f"{row_text(row)}: {call_text(call)}" if fails else None


def test_random_rows_hold_on_other_calls(claims: Claims, samples: Samples) -> None:
    tried = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op, entry in random.Random(SEED).sample(claims, min(100, len(claims))):
            found = [*_against(op, entry, samples)]
            tried += len(found)
            assert [each for each in found if each is not None] == []
    assert tried > 300


def test_every_row_runs(claims: Claims, samples: Samples) -> None:
    """Under policy optimal, on operands that are as the row wants them: what two ranks hold is what
    one device has, and nothing was reduced before."""
    kept = ran = 0
    with warnings.catch_warnings(), shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        warnings.simplefilter("ignore")
        for op, entry in claims:
            for call in of_its_kind(op, entry, samples.calls(op)):
                outputs = _run(call, entry)
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
    except (Untestable, RuntimeError):
        return None
    assert fault is None, f"{row_text(_row(entry))}: {call_text(call)}: {fault}"
    return [layout for layout in made.layouts if layout is not None] if made.has_run else None


def test_each_row_says_something() -> None:
    """Something that is pending goes in, and comes out."""
    for entries in Book.shipped().entries.values():
        for entry in entries:
            kinds = [{str(p) for p in cells} for cells in (entry.inputs, entry.outputs)]
            assert all("P(sum)" in each and each <= {"P(sum)", "R", "None"} for each in kinds)
            assert entry.calls >= 2 and entry.runs > 0
    assert torch.__version__.split("+")[0].rpartition(".")[0] in {
        version.split("+")[0].rpartition(".")[0] for version in Book.shipped().versions
    }
