"""Ops that torch refused: a program that asks again at each step is told at once."""

from __future__ import annotations

from typing import NamedTuple

from ._torch import OpOverload, OpSchema
from .bounded import BoundedMap
from .registry import rules_of
from .route import Route

__all__ = ["Refusal", "Refusals"]

_REFUSALS_HELD = 1024


class Refusal(NamedTuple):
    """What torch refused.

    Attributes:
        found: Who decides the op.
        declined: Why the core left it to torch, where it has a rule for it.
    """

    found: Route
    declined: str | None


class Refusals:
    """What torch refused lately.

    torch holds no refusals: an op that is refused again is propagated again. Our part of that is
    skipped; torch's own code raises anew, so that its words are of this very call.
    """

    def __init__(self) -> None:
        # With the rules that torch had for the op.
        self._known: BoundedMap[tuple[Refusal, tuple[object, ...]]] = BoundedMap(
            "refusals", _REFUSALS_HELD
        )
        # By address, held: to hash a schema takes long, and hardly any op is ever refused.
        self._ops: dict[int, OpOverload] = {}

    def of(self, schema: OpSchema) -> Refusal | None:
        """The refusal of this op on such operands, if there was one, and no rule came since."""
        if id(schema.op) not in self._ops:
            return None
        try:
            known = self._known.get(schema)
        except TypeError:  # an argument without a hash
            return None
        if known is None:
            return None
        refusal, rules = known
        is_so_still = all(a is b for a, b in zip(rules, rules_of(schema.op), strict=True))
        return refusal if is_so_still else None

    def remember(self, schema: OpSchema, refusal: Refusal) -> None:
        """torch refused an op."""
        try:
            self._known.put(schema, (refusal, rules_of(schema.op)))
        except TypeError:
            return
        self._ops[id(schema.op)] = schema.op

    def forget(self, schema: OpSchema) -> None:
        """torch decided an op."""
        if id(schema.op) in self._ops and self.of(schema) is not None:
            self._known.clear()
