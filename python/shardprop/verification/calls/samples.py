"""The calls that an op is tried on: the user's, or written ones, torch's samples, or made up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ..._torch import OpOverload, function_schema
from ...propagation.route import route_of
from .call import Call
from .choice import diverse
from .derived import derived, functional_of
from .opinfo import Recording, record
from .synthetic import made_up
from .written import WRITTEN, written

__all__ = ["Samples"]

# As torch's validator goes through as many samples per function.
_CALLS = 12


class Samples:
    """Calls for each of some ops.

    Recording torch's samples is done once, when this is made; calls are made up when they are asked
    for, since a kernel may crash on them.

    Args:
        ops: The ops that will be asked about.
        seed: Of every random value.
        own: The user's generator of calls; nothing else is asked then.
        every_sample: Go through all of torch's samples, which takes ten seconds more for a few ops:
            an op has the same calls then, whichever ops it is asked about with.
        every_call: Keep the calls of twice as many of torch's samples, and all that differ in what
            a rule may look at, where a few that differ most would do to try a rule.
    """

    def __init__(
        self,
        ops: Collection[OpOverload],
        seed: int = 0,
        own: Callable[[OpOverload], Iterable[Call]] | None = None,
        every_sample: bool = False,
        every_call: bool = False,
    ) -> None:
        self._seed = seed
        self._every_call = every_call
        self._times = 2 if every_call else 1
        self._own = own
        self._functional = {op: functional_of(op) for op in ops}
        self._recorded: Recording = {} if own is not None else self._record(ops, every_sample)

    def calls(self, op: OpOverload) -> list[Call]:
        """The calls of one op, always the same ones; none if nothing is known that it takes."""
        if self._own is not None:
            return list(self._own(op))
        found = self._known(op)
        functional = self._functional.get(op)
        if not found and functional is not None:
            calls = self._known(functional) or diverse(made_up(functional, self._seed), _CALLS)
            found = list(derived(op, calls))
        return found or diverse(made_up(op, self._seed, _ranks(op)), _CALLS)

    def _known(self, op: OpOverload) -> list[Call]:
        """Its written calls first: there are some where torch's samples do not do."""
        return list(written(op, self._seed)) or self._recorded.get(op, [])

    def _is_written(self, op: OpOverload) -> bool:
        """Are there written calls of it, or of its functional op?"""
        return str(op) in WRITTEN or str(self._functional[op]) in WRITTEN

    def _record(self, ops: Collection[OpOverload], every_sample: bool) -> Recording:
        ops = [op for op in ops if not self._is_written(op)]
        wanted = {op for op in ops if _is_torchs(op)}
        functional = (self._functional[op] for op in ops)
        wanted |= {op for op in functional if op is not None and _is_torchs(op)}
        if not wanted:
            return {}
        few = len(ops) <= _FEW and not every_sample
        if few:  # their siblings too, to see whether functions were found at all
            wanted |= {sibling for op in wanted for sibling in _overloads(op)}
        recorded = record(wanted, self._seed, not few, self._times)
        known = {_base_name(op) for op in recorded}
        if few and any(_base_name(op) not in known for op in ops if _is_torchs(op)):
            # No function of its own name comes down to it; some other function may.
            recorded = record(wanted, self._seed, True, self._times)
        if self._every_call:
            return recorded
        return {op: diverse(calls, _CALLS) for op, calls in recorded.items()}


def _ranks(op: OpOverload) -> dict[str, int]:
    """How many dims a rule that the program registered says the operands have."""
    rule = route_of(op).rule
    notation = None if rule is None else rule.notation
    return {} if notation is None else notation.ranks(op)


def _is_torchs(op: OpOverload) -> bool:
    return op.namespace in ("aten", "prims")


def _overloads(op: OpOverload) -> list[OpOverload]:
    packet = op.overloadpacket
    return [getattr(packet, name) for name in packet.overloads()]


def _base_name(op: OpOverload) -> str:
    """One name for all overloads, and for the in-place ones."""
    name: str = function_schema(op).name
    return name.removesuffix("_")


# From here on, going through all of torch's samples is no slower than looking for some.
_FEW = 24
