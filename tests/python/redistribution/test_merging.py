"""Which gathers must not be one gather on a flattened mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement

from shardprop.redistribution.cut_order import Change
from shardprop.redistribution.merging import not_to_merge

from ..specs import SS, P, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]
GATHERS = [(1, S(0), R), (0, S(0), R)]


@pytest.mark.parametrize(
    ("rows", "ranks", "apart"),
    [
        (12, (2, 3), False),
        (13, (2, 3), True),
        (5, (2, 2), True),  # 2, 1, 1, 1 instead of 2, 2, 1, 0
        (7, (2, 2), False),  # 2, 2, 2, 1 in either way
        (0, (2, 2), False),
        (13, (6, 1), False),
    ],
)
def test_sizes_that_do_not_divide(
    rows: int, ranks: tuple[int, ...], apart: bool, mesh_of: MeshOf
) -> None:
    spec = spec_of(mesh_of(*ranks), (rows, 4), [S(0), S(0)])
    assert not_to_merge(GATHERS, spec) == ([range(2)] if apart else [])


@pytest.mark.parametrize(
    ("placements", "moves"),
    [
        ((S(0), S(0)), [(0, S(0), R), (1, S(0), R)]),  # torch merges none in this order
        ((S(0), S(1)), [(1, S(1), R), (0, S(0), R)]),
        ((S(0), R), [(0, S(0), R)]),
        ((P, P), [(1, P, R), (0, P, R)]),
        ((R, R), [(0, R, S(0)), (1, R, S(0))]),
    ],
)
def test_what_torch_does_not_merge_into_a_gather(
    placements: Sequence[Placement], moves: Sequence[Change], mesh_of: MeshOf
) -> None:
    assert not_to_merge(moves, spec_of(mesh_of(2, 2), (5, 5), placements)) == []


def test_any_piece_of_outer_cuts_counts_for_all_ranks(mesh_of: MeshOf) -> None:
    """Of 13 rows the first two of three ranks hold 5, which 2 and 2 cut otherwise than 4."""
    moves = [(2, S(0), R), (1, S(0), R)]
    spec = spec_of(mesh_of(3, 2, 2), (13,), [S(0), S(0), S(0)])
    assert not_to_merge(moves, spec) == [range(2)]
    even = spec_of(mesh_of(3, 2, 2), (11,), [S(0), S(0), S(0)])  # 4, 4 and 3
    assert not_to_merge(moves, even) == []


def test_what_outer_cuts_leave_is_what_is_cut(mesh_of: MeshOf) -> None:
    """2 and 2 cut 14 rows otherwise than 4 does, but not the 7 that a first cut leaves of them."""
    moves = [(2, S(0), R), (1, S(0), R)]
    after_a_cut = spec_of(mesh_of(2, 2, 2), (14,), [S(0), S(0), S(0)])
    assert not_to_merge(moves, after_a_cut) == []
    assert not_to_merge(moves, spec_of(mesh_of(2, 2, 2), (14,), [R, S(0), S(0)])) == [range(2)]


def test_strided_shards_are_gathered_one_by_one(mesh_of: MeshOf) -> None:
    moves = [(1, SS(0, 3), R), (0, SS(0, 3), R)]
    spec = spec_of(mesh_of(2, 2), (24,), [SS(0, 3), SS(0, 3)])
    assert not_to_merge(moves, spec) == [range(2)]
