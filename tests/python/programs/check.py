"""What a test asserts of a comparison."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .compare import Report

NONE: frozenset[str] = frozenset()

# Reasons for which torch's own code is expected to answer. One that no longer occurs fails its
# test: whoever makes it needless deletes it here.

SYMBOLIC_SHAPE = "symbolic shape"
"""With dynamic shapes torch makes the plans that are executed: they hold shapes."""


def check(
    reports: Sequence[Report],
    *,
    decisions: int,
    fallbacks: Collection[str] = NONE,
    price_fallbacks: Collection[str] = NONE,
) -> None:
    """Equal on every rank, finite, decided by the core, and just the expected fallbacks.

    `decisions` is how many the core must at least have made. What was found is printed, for
    `pytest -rP`.
    """
    print(reports[0].summary())
    for rank, report in enumerate(reports):
        where = f"rank {rank}: {report.summary()}"
        assert report.differences == (), "\n".join([where, *report.differences])
        assert report.finite, f"{where}: results with NaN or infinity"
        assert report.stats.decisions >= decisions, where
        assert set(report.stats.fallbacks) == set(fallbacks), where
        assert report.stats.delegated == {}, where
        assert set(report.stats.price_fallbacks) == set(price_fallbacks), where
