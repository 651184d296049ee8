"""One program in one process: on DTensors by torch alone, then with its model erased."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch.distributed import distributed_c10d

import shardprop
from shardprop.cli.decisions import clear_every_cache
from shardprop.erasure import PASSES, Erased

from ..quiet import quiet
from . import world
from .compare import Program
from .outcome import differing, freeze, is_finite

STEPS_MORE = 2
"""The first runs on DTensors, and the second makes the graphs."""


@dataclass(frozen=True)
class ErasedReport:
    """How the two runs relate on one rank.

    Attributes:
        differences: Results that are not equal to the bit.
        finite: All results are finite numbers.
        made: For each part that was made of the model, why it was left to DTensor;
            None for those that are erased.
        passed: Calls that torch.compile has passed over, by reason.
        collectives: How many this rank took part in, on DTensors and erased.
    """

    differences: tuple[str, ...]
    finite: bool
    made: tuple[str | None, ...]
    passed: dict[str, int]
    collectives: tuple[int, int]

    @property
    def left(self) -> Sequence[str]:
        """Why parts were left to DTensor."""
        return [why for why in self.made if why is not None]

    def summary(self) -> str:
        """What was made, and how many collectives there are, in a few words."""
        whole = sum(why is None for why in self.made)
        return f"{whole} parts erased, left: {self.left}, collectives {self.collectives}"


def compare_erased(program: Program, passes: Sequence[str] = PASSES) -> ErasedReport:
    """Run the program twice from the same state, first on DTensors by torch alone."""
    alone, finite, before, _ = _run(program, None)
    ours, finite_too, after, found = _run(program, passes)
    (erased,) = found
    return ErasedReport(
        differences=tuple(differing(alone, ours, "results")),
        finite=finite and finite_too,
        made=tuple(piece.left_to_dtensor for piece in erased.pieces),
        passed=dict(erased.passed),
        collectives=(before, after),
    )


def _run(
    program: Program, passes: Sequence[str] | None
) -> tuple[object, bool, int, list[Erased[Any]]]:
    """What the program found, and how many collectives it took part in; erased with these passes,
    or not at all."""
    found: list[Erased[Any]] = []

    def prepared(model: nn.Module) -> None:
        if passes is not None:
            found.append(shardprop.erase(model, passes=passes))

    clear_every_cache()
    torch._dynamo.reset()
    torch.manual_seed(0)
    with (
        quiet(),
        nullcontext() if passes is None else shardprop.enabled(),
        mock.patch.object(world, "prepared", prepared),
        mock.patch.object(world, "STEPS_MORE", STEPS_MORE),
    ):
        before = _collectives_so_far()
        results = program()
        after = _collectives_so_far()
    return freeze(results), is_finite(results), after - before, found


def _collectives_so_far() -> int:
    """Of all groups that this rank is in; with those that a group is opened by."""
    groups: Any = distributed_c10d._world.pg_map
    return sum(group._get_sequence_number_for_group() for group in groups)


def check_erased(
    reports: Sequence[ErasedReport], *, whole: int = 1, left: Sequence[str] = ()
) -> None:
    """Equal to the bit on every rank, with no more collectives; so many parts are erased, and what
    is left to DTensor has these reasons in it, each of them."""
    print(reports[0].summary())
    for rank, report in enumerate(reports):
        where = f"rank {rank}: {report.summary()}"
        assert report.differences == (), "\n".join([where, *report.differences])
        assert report.finite, f"{where}: results with NaN or infinity"
        assert report.made.count(None) == whole, where
        assert all(any(reason in why for reason in left) for why in report.left), where
        assert all(any(reason in why for why in report.left) for reason in left), where
        assert report.passed == {}, f"{where}: {report.passed}"
        assert report.collectives[1] <= report.collectives[0], where
