"""What a correction is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._torch import OpOverload, OpSchema, OutputSharding

if TYPE_CHECKING:
    from ..rules.kept_rows import Keeps

__all__ = ["CallCorrection", "Correction"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Correction:
    """One fault of torch's decisions, and what is decided in their place.

    Attributes:
        name: What statistics, explanations and documents call it.
        fault: What torch does, and why its values are wrong; a sentence without its subject.
        right: What shardprop does; likewise.
        ends: What ends it.
        where: What has the fault, in words; else the ops of a `CallCorrection` tell.
        spares: Is a decision of torch's right after all, which it makes where no strategy without
            the fault is known? None: it is not.
    """

    name: str
    fault: str
    right: str
    ends: str
    where: str = ""
    spares: Callable[[OpSchema, OutputSharding], bool] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class CallCorrection(Correction):
    """A fault of torch's full-mesh strategies of some ops, in whose place rules of ours stand, or
    of what torch's dispatcher does around the ops.

    Attributes:
        ops: The overloads.
        concerns: Can torch's own decision about this call be wrong?
        in_rows: Those of them whose single-dim rules, in a torch that has some, have the fault too.
        keeps: Does a row of such a rule hold for a call? None: a rule of ours stands in its place,
            or nothing is to be left out.
        accepts: A filter over whole strategies of such a rule (`RowsRule.accepts`).
        leaves_written: Does what the op writes into have to stay where it is?
        refuses: Is a call refused that is concerned, on all ranks?
    """

    ops: tuple[OpOverload, ...]
    concerns: Callable[[OpSchema], bool]
    in_rows: tuple[OpOverload, ...] = ()
    keeps: Keeps | None = None
    accepts: Callable[..., bool] | None = None
    leaves_written: bool = False
    refuses: bool = False

    @property
    def narrows(self) -> bool:
        """Is some of what such a rule offers left out? Else a rule of ours stands in its place."""
        return self.keeps is not None or self.accepts is not None or self.leaves_written

    @property
    def is_of_moves(self) -> bool:
        """Is a decision right that moves nothing, unless the op returns what it writes into?"""
        return self.leaves_written and self.keeps is None and self.accepts is None
