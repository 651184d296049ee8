"""Ops that torch refused: a program that asks again at each step is told at once."""

from __future__ import annotations

from ._torch import OpOverload, OpSchema
from .bounded import BoundedMap

__all__ = ["Refusals"]

_REFUSALS_HELD = 1024


class Refusals:
    """Why the core declined what torch then refused.

    torch holds no refusals: an op that is refused again is propagated again. The core's part of
    that is skipped; torch's own code raises anew, so that its words are of this very call.
    """

    def __init__(self) -> None:
        self._reasons: BoundedMap[str] = BoundedMap("refusals", _REFUSALS_HELD)
        # By address, held: to hash a schema takes long, and hardly any op is ever refused.
        self._ops: dict[int, OpOverload] = {}

    def reason(self, schema: OpSchema) -> str | None:
        """Why the core declined, if torch refused this op on such operands; else None."""
        if id(schema.op) not in self._ops:
            return None
        try:
            return self._reasons.get(schema)
        except TypeError:  # an argument without a hash
            return None

    def remember(self, schema: OpSchema, reason: str) -> None:
        """torch refused what the core had declined for `reason`."""
        try:
            self._reasons.put(schema, reason)
        except TypeError:
            return
        self._ops[id(schema.op)] = schema.op
