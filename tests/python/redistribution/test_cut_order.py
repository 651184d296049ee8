"""Plans that undo cuts from the last one and make them from the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement

from shardprop.model.plan_steps import Layout
from shardprop.redistribution.cut_order import (
    Change,
    cuts_of,
    follows_cuts,
    layouts_before,
    moves_by_cuts,
)

from ..specs import SS, P, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]


def layout(mesh: DeviceMesh, *placements: Placement) -> Layout:
    return cuts_of(spec_of(mesh, (12, 8), placements))


@pytest.mark.parametrize(
    ("placements", "order"),
    [
        ((S(0), R, S(0)), ((0, (0, 2)),)),
        ((S(1), S(0), S(1)), ((0, (1,)), (1, (0, 2)))),
        ((P, R, R), ()),
        # It stands for a shard order: mesh dim 1 cuts first.
        ((SS(0, 2), S(0), R), ((0, (1, 0)),)),
        # It stands for none.
        ((SS(0, 3), S(0), R), ((0, (0, 1)),)),
    ],
)
def test_cuts_of_a_spec(placements: Sequence[Placement], order: object, mesh_of: MeshOf) -> None:
    assert layout(mesh_of(2, 2, 2), *placements).shard_order == order


def test_a_mesh_dim_of_one_rank_cuts_nothing(mesh_of: MeshOf) -> None:
    assert layout(mesh_of(2, 1, 2), S(0), S(0), S(0)).shard_order == ((0, (0, 2)),)


@pytest.mark.parametrize(
    ("moves", "follows"),
    [
        ([(1, S(0), R), (0, S(0), R)], True),
        ([(0, S(0), R), (1, S(0), R)], False),  # the outer cut first
        ([(1, S(0), R)], False),  # not all the way
        ([(1, S(0), R), (0, S(1), R)], False),  # another placement than there is
        ([(1, S(0), S(1)), (1, S(1), R), (0, S(0), R)], True),
    ],
)
def test_cuts_are_undone_from_the_last(
    moves: Sequence[Change], follows: bool, mesh_of: MeshOf
) -> None:
    mesh = mesh_of(2, 2)
    src, dst = layout(mesh, S(0), S(0)), layout(mesh, R, R)
    assert follows_cuts(moves, src, dst, by_graph=False) is follows


def test_a_cut_inside_a_strided_one_has_a_size_that_only_the_graph_planner_knows(
    mesh_of: MeshOf,
) -> None:
    mesh = mesh_of(2, 2)
    src, dst = layout(mesh, SS(0, 3), S(0)), layout(mesh, SS(0, 3), R)
    moves = [(1, S(0), R)]
    assert not follows_cuts(moves, src, dst, by_graph=False)
    assert follows_cuts(moves, src, dst, by_graph=True)


def test_the_last_cuts_have_to_be_those_of_the_target(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)
    src, dst = layout(mesh, R, S(0)), layout(mesh, SS(0, 3), S(0))
    assert not follows_cuts([(0, R, SS(0, 3))], src, dst, by_graph=False)


@pytest.mark.parametrize(
    ("src", "dst", "moves"),
    [
        (
            (R, S(0)),
            (SS(0, 3), S(0)),
            [(1, S(0), R), (0, R, SS(0, 3)), (1, R, S(0))],
        ),
        (
            (SS(0, 3), S(0)),
            (R, S(0)),
            [(1, S(0), R), (0, SS(0, 3), R), (1, R, S(0))],
        ),
        ((SS(0, 3), S(0)), (SS(0, 3), R), [(1, S(0), R)]),
        ((SS(0, 3), P), (P, S(1)), [(0, SS(0, 3), R), (1, P, S(1)), (0, R, P)]),
    ],
)
def test_moves_by_cuts(
    src: Sequence[Placement],
    dst: Sequence[Placement],
    moves: Sequence[Change],
    mesh_of: MeshOf,
) -> None:
    mesh = mesh_of(2, 2)
    source, target = layout(mesh, *src), layout(mesh, *dst)
    found = moves_by_cuts(source, target)
    assert found == list(moves)
    assert follows_cuts(found, source, target, by_graph=True)
    assert [
        before.placements[m]
        for before, (m, _, _) in zip(layouts_before(found, source), found, strict=True)
    ] == [before for _, before, _ in found]
