"""After a permutation every rank holds the block of the layout that it leads to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import pytest

from shardprop import ShardpropError
from shardprop.redistribution.permutation import ShardOrder, destinations

Sizes = tuple[int, ...]
TENSOR_DIMS = (0, 1)


def orders(mesh_dims: tuple[int, ...]) -> Iterator[ShardOrder]:
    """Every way to cut a tensor of two dims with some of the mesh dims, in every order."""
    for dims in itertools.product((None, *TENSOR_DIMS), repeat=len(mesh_dims)):
        cuts = [[m for m, d in zip(mesh_dims, dims, strict=True) if d == t] for t in TENSOR_DIMS]
        for chosen in itertools.product(*map(itertools.permutations, cuts)):
            yield tuple((t, tuple(o)) for t, o in enumerate(chosen) if o)


def region(order: ShardOrder, sizes: Sizes, place: tuple[int, ...]) -> tuple[range, ...]:
    """What a rank holds of a tensor whose dims all cuts divide, cut after cut."""
    held = [range(math.prod(sizes))] * len(TENSOR_DIMS)
    for dim, mesh_dims in order:
        for m in mesh_dims:
            size = len(held[dim]) // sizes[m]
            held[dim] = held[dim][place[m] * size : (place[m] + 1) * size]
    return tuple(held)


def framed(order: ShardOrder, sizes: Sizes, group: tuple[int, ...]) -> object:
    """The cuts by other mesh dims with the number of pieces before each, and that of all."""
    frame: dict[int, list[object]] = {}
    for dim, mesh_dims in order:
        pieces = 1
        frame[dim] = []
        for m in mesh_dims:
            if m not in group:
                frame[dim].append((m, pieces))
            pieces *= sizes[m]
        frame[dim].append(pieces)
    return sorted(frame.items())


@pytest.mark.parametrize("sizes", [(2, 2), (2, 4), (2, 2, 2), (4, 2, 2)], ids=str)
def test_every_rank_gets_its_block(sizes: Sizes) -> None:
    every = tuple(range(len(sizes)))
    groups = [g for n in range(2, len(every) + 1) for g in itertools.combinations(every, n)]
    alike: dict[object, list[ShardOrder]] = {}
    for order, group in itertools.product(orders(every), groups):
        alike.setdefault((group, str(framed(order, sizes, group))), []).append(order)
    pairs = 0
    for (group, _), found in alike.items():  # type: ignore[misc]
        for before, after in itertools.product(found, repeat=2):
            check(before, after, sizes, group)
            pairs += 1
    assert pairs > 10


def check(before: ShardOrder, after: ShardOrder, sizes: Sizes, group: tuple[int, ...]) -> None:
    table = destinations(before, after, sizes, group)
    assert sorted(table) == list(range(math.prod(sizes[m] for m in group)))
    in_group = list(itertools.product(*(range(sizes[m]) for m in group)))
    for place in itertools.product(*map(range, sizes)):
        sender = in_group.index(tuple(place[m] for m in group))
        to = list(place)
        for m, coordinate in zip(group, in_group[table[sender]], strict=True):
            to[m] = coordinate
        sent = region(before, sizes, place)
        assert sent == region(after, sizes, tuple(to)), (before, after, group)
        if sent == region(after, sizes, place):
            assert table[sender] == sender, "a rank that holds its block keeps it"


def test_blocks_go_to_ranks_in_ascending_order() -> None:
    swapped = destinations(((0, (0,)),), ((0, (1,)),), (2, 2), (0, 1))
    assert swapped == (0, 2, 1, 3)
    turned = destinations(((0, (0, 1)),), ((0, (1, 0)),), (2, 4), (0, 1))
    assert turned == (0, 4, 1, 5, 2, 6, 3, 7)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (((0, (0,)),), ((1, (0,)),)),
        (((0, (0,)),), ((0, (0, 1)),)),
        (((0, (0,)),), ()),
        (((0, (0, 1)),), ((0, (0,)), (1, (1,)))),
    ],
    ids=str,
)
def test_other_pieces_are_refused(before: ShardOrder, after: ShardOrder) -> None:
    with pytest.raises(ShardpropError, match="other pieces"):
        destinations(before, after, (2, 2), (0, 1))
