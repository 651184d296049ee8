"""How often each stratum of cases is drawn."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from .layouts import Kind

T = TypeVar("T")


@dataclass(frozen=True)
class Mix:
    """How often each stratum is drawn, as weights, and what a case may cost torch."""

    mesh_ndim: Mapping[int, float] = field(default_factory=lambda: {1: 40, 2: 42, 3: 12, 4: 6})
    kind: Mapping[Kind, float] = field(
        default_factory=lambda: {
            Kind.PLAIN: 74,
            Kind.ORDERED: 7,
            Kind.STRIDED_ORDER: 7,
            Kind.STRIDED_VIEW: 8,
            Kind.MASK_PARTIAL: 3,
            Kind.NORM_PARTIAL: 1,
        }
    )
    # Where layouts come from: rows of the rule, rows with some operands changed, or nowhere.
    source: Mapping[str, float] = field(
        default_factory=lambda: {"rows": 10, "nearly rows": 48, "free": 42}
    )
    # The share of calls taken from torch's sample inputs; of the others, the shares of ops that
    # torch decides without a single-dim rule.
    opinfo: float = 0.3
    full_mesh: float = 0.1
    decomposed: float = 0.008
    # Estimated milliseconds torch may take for a case: weight per bound.
    budget_ms: Mapping[float, float] = field(
        default_factory=lambda: {2.5: 50, 5.0: 35, 20.0: 12, 80.0: 2.7, 400.0: 0.3}
    )
    # A decomposition is traced many times.
    decomposed_budget: float = 8.0


DEFAULT = Mix()


def weighted(rng: random.Random, weights: Mapping[T, float]) -> T:
    """A key of the mapping, by weight."""
    return rng.choices(list(weights), list(weights.values()))[0]
