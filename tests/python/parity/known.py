"""Differences from torch that we know of and accept, as named predicates.

A predicate says which differences it excuses and why. It is deleted by the change that removes the
difference; a run fails if a predicate excuses nothing of many cases that it could be about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch._ops import OpOverload

from shardprop.propagation.decomposition import Declined
from shardprop.propagation.propagator import current_policy
from shardprop.propagation.route import decomposer

from . import faults
from .case import Case
from .outcome import Outcome
from .registry import Rule, rule_of


@dataclass(frozen=True)
class Known:
    """One accepted difference.

    Attributes:
        name: What reports call it.
        reason: Why it is accepted.
        applies: ``applies(case, torch's outcome, ours)``.
        ops: The only ops that it is about; () for any.
        within: So many cases of these ops show it at least once.
    """

    name: str
    reason: str
    applies: Callable[[Case, Outcome, Outcome], bool]
    ops: tuple[OpOverload, ...] = ()
    within: int = 400

    def excuses(self, case: Case, theirs: Outcome, ours: Outcome) -> bool:
        return (not self.ops or case.op in self.ops) and self.applies(case, theirs, ours)

    def is_due(self, drawn: Mapping[str, int]) -> bool:
        """Were enough cases drawn, counted by op, that it must have occurred?"""
        if not self.ops:
            return sum(drawn.values()) >= self.within
        # Where a later torch lists rows for an op, we follow those, and nothing differs.
        ours = (op for op in self.ops if rule_of(op) is Rule.FULL_MESH)
        return sum(drawn.get(str(op), 0) for op in ours) >= self.within


def _is_beyond_torch(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    if theirs.error is None or theirs.error[0] != "NotImplementedError" or ours.error is not None:
        return False
    try:
        return decomposer.rows(case.schema(), current_policy()).refused_by_torch
    except Declined:
        return False


aten = torch.ops.aten

KNOWN: tuple[Known, ...] = (
    Known(
        "decomposition beyond torch",
        "torch refuses an op whose decomposition calls a factory (zeros, arange, ...): no operand "
        "is a DTensor. shardprop decides it where every row is right on any rank, which the module "
        "shardprop.propagation.decomposition.extensions checks row by row.",
        _is_beyond_torch,
    ),
    Known(
        "scan along a dim counted from the end",
        "torch compares the dim as given with those of shards: it gathers nothing, and each rank "
        "scans its own shard.",
        faults.scan_from_the_end,
        faults.SCANS,
    ),
    Known(
        "backward of a slice of a dim counted from the end",
        "torch compares the dim as given with those of shards, and claims shards of other dims, or "
        "of the sliced one.",
        faults.backward_from_the_end,
        faults.BACKWARD,
        within=1500,
    ),
    Known(
        "powers of what is pending",
        "torch lets a Partial(sum) through a sum of powers: the powers of the parts do not add up "
        "to those of the whole.",
        faults.powers_of_pending,
        faults.POWER_SUMS,
    ),
    Known(
        "conversion of what is pending",
        "torch lets a Partial through a reduction that converts first: a pending sum of bools is a "
        "logical or, which as numbers are added is a count; fractions that are cut off add up; of "
        "numbers that add up to zero some are not.",
        faults.conversion_of_pending,
        faults.REDUCTIONS,
        within=1500,
    ),
    Known(
        "nansum of a pending sum",
        "torch lets a Partial(sum) through, though the whole is nan where a part is, and left out.",
        faults.nansum_of_pending,
        (aten.nansum.default,),
    ),
    Known(
        "all ranks write one value",
        "torch fills a pending sum, product or exclusive or with the value of the whole on each "
        "rank, and writes a whole identity into each shard. What is written cannot be moved: we "
        "refuse. torch's cache keys leave the value out, so that it refuses zero, too, for which "
        "there is zero_().",
        faults.all_ranks_write,
        faults.WRITES,
    ),
    Known(
        "new tensor that takes over what is pending",
        "new_full and new_ones of a sharded operand keep a Partial that it has beside the shard.",
        faults.factory_of_pending,
        faults.FACTORIES,
        within=1500,
    ),
    Known(
        "bits of another dtype",
        "torch leaves the layout alone under view.dtype: parts are added before or after their "
        "bits are read otherwise, and uneven shards of a dim that changes its size are others.",
        faults.bits_of_another_kind,
        faults.BITS,
    ),
    Known(
        "real parts of complex numbers",
        "torch lets a Partial(product) through view_as_real, and puts strided shards of the last "
        "dim on the new one.",
        faults.complex_as_real,
        faults.COMPLEX,
    ),
    Known(
        "average of integers",
        "torch lets a Partial through a pooling average of integers, which is rounded.",
        faults.average_of_integers,
        faults.AVERAGES,
        within=1_000_000,  # such operands are next to never drawn
    ),
    Known(
        "weighted mean of a loss",
        "torch averages the means of the ranks, each over the weights of its own targets, or over "
        "those that are not ignored. We gather where the call has weights or names the class to "
        "ignore. Targets equal to the default of -100 make torch's mean wrong as well, and ours: "
        "a fault that depends on values, and a remedy that every training would pay for.",
        faults.weighted_mean,
        faults.LOSSES,
        within=1500,
    ),
    Known(
        "shards of an index and of what it indexes",
        "torch shards gather and scatter_add on a dim that the index does not run along, without "
        "a look at its sizes: where they differ, so do the elements that a rank holds of each.",
        faults.indexed_by_another_size,
        faults.INDEXED,
        within=1500,
    ),
    Known(
        "bools joined with numbers",
        "torch lets a pending sum of bools, a logical or, become one of numbers in cat and stack.",
        faults.joined_bools,
        faults.JOINING,
        within=1_000_000,  # such operands are next to never drawn
    ),
)


def excuse(case: Case, theirs: Outcome, ours: Outcome) -> str | None:
    """The name of the predicate that excuses a difference, or None."""
    return next((known.name for known in KNOWN if known.excuses(case, theirs, ours)), None)
