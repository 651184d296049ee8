"""The calls that an op is tried on: the user's, else torch's samples, else made up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import islice

from .._torch import OpOverload
from .calls import Call
from .choice import diverse
from .derived import derived, functional_of
from .made_up import made_up
from .opinfo import Recording, record

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
    """

    def __init__(
        self,
        ops: Collection[OpOverload],
        seed: int = 0,
        own: Callable[[OpOverload], Iterable[Call]] | None = None,
    ) -> None:
        self._seed = seed
        self._own = own
        self._functional = {op: functional_of(op) for op in ops}
        self._recorded: Recording = {} if own is not None else self._record(ops)

    def calls(self, op: OpOverload) -> list[Call]:
        """The calls of one op, always the same ones; none if nothing is known that it takes."""
        if self._own is not None:
            return list(self._own(op))
        found = diverse(self._recorded.get(op, ()), _CALLS)
        functional = self._functional.get(op)
        if not found and functional is not None:
            calls = diverse(self._recorded.get(functional, ()), _CALLS)
            calls = calls or list(made_up(functional, _CALLS, self._seed))
            found = list(islice(derived(op, calls), _CALLS))
        return found or diverse(made_up(op, 2 * _CALLS, self._seed), _CALLS)

    def _record(self, ops: Collection[OpOverload]) -> Recording:
        wanted = {op for op in self._functional if op.namespace in ("aten", "prims")}
        wanted |= {op for op in self._functional.values() if op is not None}
        if not wanted:
            return {}
        few = len(ops) <= _FEW
        recorded = record(wanted, self._seed, every_sample=not few)
        if few and any(not self._is_recorded(op, recorded) for op in ops):
            # Not by a function of its own name; some function may still come down to it.
            recorded = record(wanted, self._seed, every_sample=True)
        return recorded

    def _is_recorded(self, op: OpOverload, recorded: Recording) -> bool:
        return op in recorded or self._functional.get(op) in recorded


# From here on, going through all of torch's samples is no slower than looking for some.
_FEW = 24
