"""Who decides each op while shardprop is enabled: the ops are torch's, the answers those of
`route`, both read at the moment of use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

import torch

from .. import _torch
from .._torch import OpOverload
from ..metadata import OpClass, class_of
from ..propagation.route import Route, Who, route_of
from ..rules import torch_registry
from ..rules.rule import Origin

__all__ = ["EXCEPTIONS", "Coverage", "Decider", "OpCoverage", "coverage"]

# Ops that torch's own code may decide, each with the reason why that is right.
EXCEPTIONS: dict[str, str] = {}


class Decider(Enum):
    """Who decides an op."""

    CORE_RULE = "core rule"  # the core, by torch's single-dim rule
    OWN_RULE = "own rule"  # the core, by a rule of `shardprop.rules`
    REGISTERED_RULE = "registered rule"  # the core, by a rule that the program registered
    DECOMPOSITION = "decomposition"  # the core, by what the op decomposes into
    CUSTOM_HANDLER = "custom handler"  # nobody: torch's dispatcher asks for no decision
    FALLBACK = "fallback"  # torch's own code, with prices from the core


@dataclass(frozen=True)
class OpCoverage:
    """One op overload.

    Attributes:
        op: As torch prints it.
        decider: Who decides it.
        how: By which of torch's ways where it falls back; the function where it is handled; file
            and line of the registration where there is one.
        composite: Autograd takes it apart before DTensor sees it, except in inference mode.
        metadata: By which means the metadata of its outputs is found, and why by no cheaper one.
    """

    op: str
    decider: Decider
    how: str | None
    composite: bool
    metadata: OpClass

    @property
    def exception(self) -> str | None:
        """The reason why it may fall back, if there is one and it does."""
        return EXCEPTIONS.get(self.op) if self.decider is Decider.FALLBACK else None

    @property
    def is_gap(self) -> bool:
        """It falls back, and for no reason."""
        return self.decider is Decider.FALLBACK and self.exception is None


@dataclass(frozen=True)
class Coverage:
    """Ops in alphabetical order, and what they sum up to."""

    ops: tuple[OpCoverage, ...]

    def count(self, decider: Decider) -> int:
        """Ops of one decider."""
        return sum(op.decider is decider for op in self.ops)

    def percent(self, decider: Decider) -> float:
        """Their share in percent."""
        return 100 * self.count(decider) / len(self.ops) if self.ops else 0.0

    def gaps(self) -> list[OpCoverage]:
        """Ops that fall back for no reason."""
        return [op for op in self.ops if op.is_gap]

    def fallbacks(self) -> Counter[str]:
        """How many ops fall back, by torch's way of deciding them."""
        return Counter(op.how or "" for op in self.ops if op.decider is Decider.FALLBACK)

    def summary(self) -> dict[str, object]:
        """Counts and shares as plain values."""
        return {
            "torch": torch.__version__,
            "total": len(self.ops),
            "deciders": {
                decider.value: {
                    "ops": self.count(decider),
                    "percent": round(self.percent(decider), 2),
                }
                for decider in Decider
            },
            "fallbacks": dict(self.fallbacks()),
            "gaps": len(self.gaps()),
        }

    def as_json(self) -> list[dict[str, object]]:
        """Each op as plain values."""
        return [
            {
                "op": op.op,
                "decider": op.decider.value,
                "how": op.how,
                "composite": op.composite,
                "exception": op.exception,
                "metadata": op.metadata.name,
                "metadata_reason": op.metadata.reason,
            }
            for op in self.ops
        ]

    def named(self, part: str) -> Coverage:
        """Only the ops with this in their name."""
        return Coverage(tuple(op for op in self.ops if part in op.op))

    def decided_by(self, decider: Decider) -> Coverage:
        """Only the ops of one decider."""
        return Coverage(tuple(op for op in self.ops if op.decider is decider))

    def reached_always(self) -> Coverage:
        """Only the ops that DTensor sees outside of inference mode too."""
        return Coverage(tuple(op for op in self.ops if not op.composite))


def coverage(begin: Callable[[str], None] = lambda _: None) -> Coverage:
    """Every op that torch can decide for DTensors, and who decides it.

    `begin` is called with the name of each of the 2 parts of the work, as it begins.

    Those are the ops that have a rule in one of torch's registries, a handler in its dispatcher,
    or else a decomposition that it traces and a tensor among their arguments (an op that takes no
    tensor never meets a DTensor).
    """
    begin("looking for ops")
    ops = torch_registry.ops_decided() | _torch.ops_handled_instead()
    begin("who decides them")
    return Coverage(tuple(sorted(_covered(ops), key=lambda op: op.op)))


def _covered(ops: Iterable[OpOverload]) -> Iterable[OpCoverage]:
    for op in ops:
        found = route_of(op)
        composite = _torch.comes_apart_above(op)
        yield OpCoverage(str(op), _decider(found), _how(found), composite, class_of(op))


_OF_CORE = {
    Origin.TORCH: Decider.CORE_RULE,
    Origin.SHARDPROP: Decider.OWN_RULE,
    Origin.REGISTERED: Decider.REGISTERED_RULE,
}
_OTHERS = {
    Who.DECOMPOSITION: Decider.DECOMPOSITION,
    Who.HANDLER: Decider.CUSTOM_HANDLER,
    Who.READ_OUT: Decider.OWN_RULE,
    Who.TORCH: Decider.FALLBACK,
}


def _decider(found: Route) -> Decider:
    return _OTHERS[found.who] if found.rule is None else _OF_CORE[found.rule.origin]


def _how(found: Route) -> str | None:
    if found.handler is not None:
        return getattr(found.handler, "__name__", repr(found.handler))
    if found.rule is not None:
        is_registered = found.rule.origin is Origin.REGISTERED
        return found.facts.where if is_registered else None
    return found.way.value if found.who is Who.TORCH and found.way is not None else None
