"""Ops that torch refused: a program that asks again at each step is told at once."""

from __future__ import annotations

from .._torch import OpOverload, OpSchema
from ..rules.torch_registry import rules_of
from ..support.cache import BoundedMap
from .route import Route

__all__ = ["Refusals"]

_REFUSALS_HELD = 1024


class Refusals:
    """What torch refused lately.

    torch holds no refusals: an op that is refused again is propagated again. Our part of that is
    skipped; torch's own code raises anew, so that its words are of this very call.
    """

    def __init__(self) -> None:
        # Who decides the op, and the rules that torch had for it.
        self._known: BoundedMap[tuple[Route, tuple[object, ...]]] = BoundedMap(
            "refusals", _REFUSALS_HELD
        )
        # By address, held: to hash a schema takes long, and hardly any op is ever refused.
        self._ops: dict[int, OpOverload] = {}

    def of(self, schema: OpSchema) -> Route | None:
        """Who decides this op, if torch refused it on such operands and no rule came since."""
        if id(schema.op) not in self._ops:
            return None
        try:
            known = self._known.get(schema)
        except TypeError:  # an argument without a hash
            return None
        if known is None:
            return None
        found, rules = known
        is_so_still = all(a is b for a, b in zip(rules, rules_of(schema.op), strict=True))
        return found if is_so_still else None

    def remember(self, schema: OpSchema, found: Route) -> None:
        """torch refused an op."""
        try:
            self._known.put(schema, (found, rules_of(schema.op)))
        except TypeError:
            return
        self._ops[id(schema.op)] = schema.op

    def forget(self, schema: OpSchema) -> None:
        """torch decided an op."""
        if id(schema.op) in self._ops and self.of(schema) is not None:
            self._known.clear()
