"""What a correction is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._torch import OpOverload, OpSchema

__all__ = ["CallCorrection", "Correction"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Correction:
    """One fault of torch's decisions, and what is decided in their place.

    Attributes:
        name: What statistics, explanations and documents call it.
        fault: What torch does, and why its values are wrong; a sentence without its subject.
        right: What shardprop does; likewise.
        ends: What ends it.
        where: What has the fault, in words; the ops of a `CallCorrection` tell.
    """

    name: str
    fault: str
    right: str
    ends: str
    where: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class CallCorrection(Correction):
    """A fault of torch's full-mesh strategies of some ops, in whose place rules of ours stand, or
    of what torch's dispatcher does around the ops.

    Attributes:
        ops: The overloads.
        concerns: Can torch's own decision about this call be wrong?
        in_rows: Those of them whose single-dim rules, in a torch that has some, have the fault too.
        keeps: Does a row of such a rule hold, for these arguments? None: a rule of ours stands in
            its place, or nothing is to be left out.
        refuses: Is a call refused that is concerned, on all ranks?
    """

    ops: tuple[OpOverload, ...]
    concerns: Callable[[OpSchema], bool]
    in_rows: tuple[OpOverload, ...] = ()
    keeps: Callable[[Sequence[Any], tuple[Any, ...]], bool] | None = None
    refuses: bool = False
