"""What ranks hold of a dim that is cut, and whether the op does the same there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Placement

from shardprop.propagation.decomposition.by_rows import DimLayout
from shardprop.propagation.decomposition.local_run import _held_by_ranks, runs_alike
from shardprop.propagation.decomposition.program import Declined, Program

from ...specs import SS, R, S, meta_of
from .traced import program_of


@pytest.mark.parametrize(
    ("cuts", "mesh", "held"),
    [
        (((S(0), 8),), (4,), [{(2,)}]),
        (((S(0), 7),), (4,), [{(2,), (1,)}]),
        (((S(0), 5),), (4,), [{(2,), (1,), (0,)}]),
        (((S(0), 8), (S(0), 6)), (4,), [{(2, 2), (2, 0)}]),
        # On the first mesh dim, on the second, on both.
        (((S(0), 8),), (2, 4), [{(4,)}, {(2,)}, {(1,)}]),
        (((S(0), 7),), (2, 2), [{(4,), (3,)}, {(2,), (1,)}]),
        (((S(0), 8),), (1, 2), [{(4,)}]),
        # In two runs of 4 and 3, of which each rank has a half.
        (((SS(0, 2), 7),), (2,), [{(4,), (3,)}]),
        ((), (2,), [{()}]),
    ],
    ids=str,
)
def test_what_ranks_hold(
    cuts: tuple[tuple[Placement, int], ...], mesh: tuple[int, ...], held: list[set[tuple[int, ...]]]
) -> None:
    assert [*_held_by_ranks(cuts, mesh)] == held


@pytest.mark.parametrize("ranks", range(1, 9))
def test_no_rank_holds_anything_else(ranks: int) -> None:
    for size in range(2, 20):
        chunk = -(-size // ranks)
        expected = {(max(0, min(chunk, size - rank * chunk)),) for rank in range(ranks)}
        assert [*_held_by_ranks(((S(0), size),), (ranks,))] == ([expected] if ranks > 1 else [])


def in_order(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.neg(x), torch.abs(x)


def swapped(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As `in_order`, but it returns its results the other way round."""
    first, second = in_order(x)
    return second, first


def alike_on_shards(whole: Callable[..., Any], local: Callable[..., Any]) -> bool:
    """Is `whole` the same on rows as on all of a tensor, if it is `local` on rows?"""
    program = program_of(whole, meta_of((8, 4)))
    layouts = [DimLayout(S(0), None)] * len(program.metas)

    def retrace(shapes: Sequence[torch.Size]) -> Program:
        return program_of(local, *map(meta_of, shapes))

    return runs_alike(program, layouts, retrace, (2,), rewritten=False)


@pytest.mark.parametrize(
    ("whole", "local", "alike"),
    [
        (in_order, in_order, True),
        (torch.neg, lambda x: in_order(x)[0], False),
        (lambda x: in_order(x)[0], torch.neg, False),
        (in_order, swapped, False),
        (swapped, in_order, False),
    ],
    ids=["the same", "more calls", "fewer calls", "results swapped", "results put in order"],
)
def test_a_run_on_shards_makes_the_same_calls_and_returns_the_same_of_them(
    whole: Callable[..., Any], local: Callable[..., Any], alike: bool
) -> None:
    assert alike_on_shards(whole, local) == alike


def test_a_run_on_shards_that_cannot_be_followed_is_not_alike() -> None:
    def declined(x: torch.Tensor) -> torch.Tensor:
        raise Declined("test reason")

    assert not alike_on_shards(torch.neg, declined)


@pytest.mark.parametrize("dim", [2, 3])
def test_a_cut_along_a_dim_that_a_value_does_not_have_is_not_alike(dim: int) -> None:
    program = program_of(torch.neg, meta_of((8, 4)))
    layouts = [DimLayout(S(dim), None)] * len(program.metas)
    assert not runs_alike(program, layouts, lambda shapes: program, (2,), rewritten=False)


def test_a_value_without_a_layout_is_not_alike() -> None:
    program = program_of(torch.neg, meta_of((8, 4)))
    layouts = [DimLayout(R, None), None]
    assert not runs_alike(program, layouts, lambda shapes: program, (2,), rewritten=False)
