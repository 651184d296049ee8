"""What ranks hold of a dim that is cut."""

from __future__ import annotations

import pytest

from shardprop.propagation.decomposition.local_run import _held_by_ranks

from ...specs import SS, S


@pytest.mark.parametrize(
    ("cuts", "mesh", "held"),
    [
        ([(S(0), 8)], (4,), [{(2,)}]),
        ([(S(0), 7)], (4,), [{(2,), (1,)}]),
        ([(S(0), 5)], (4,), [{(2,), (1,), (0,)}]),
        ([(S(0), 8), (S(0), 6)], (4,), [{(2, 2), (2, 0)}]),
        # On the first mesh dim, on the second, on both.
        ([(S(0), 8)], (2, 4), [{(4,)}, {(2,)}, {(1,)}]),
        ([(S(0), 7)], (2, 2), [{(4,), (3,)}, {(2,), (1,)}]),
        ([(S(0), 8)], (1, 2), [{(4,)}]),
        # In two runs of 4 and 3, of which each rank has a half.
        ([(SS(0, 2), 7)], (2,), [{(4,), (3,)}]),
        ([], (2,), [{()}]),
    ],
    ids=str,
)
def test_what_ranks_hold(
    cuts: list[tuple[object, int]], mesh: tuple[int, ...], held: list[set[tuple[int, ...]]]
) -> None:
    assert [*_held_by_ranks(cuts, mesh)] == held  # type: ignore[arg-type]


@pytest.mark.parametrize("ranks", range(1, 9))
def test_no_rank_holds_anything_else(ranks: int) -> None:
    for size in range(2, 20):
        chunk = -(-size // ranks)
        expected = {(max(0, min(chunk, size - rank * chunk)),) for rank in range(ranks)}
        assert [*_held_by_ranks([(S(0), size)], (ranks,))] == ([expected] if ranks > 1 else [])
