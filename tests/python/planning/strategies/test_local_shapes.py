"""Local shapes are the largest that torch gives any rank."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import _StridedShard

import shardprop
from shardprop.planning.strategies.local_shapes import largest_shard

from .oracle import meta_of

R, S = Replicate(), Shard


def by_torch(shape: Any, mesh_shape: Any, layout: Any) -> tuple[int, ...]:
    ranks = itertools.product(*map(range, mesh_shape))
    locals_ = [
        _compute_local_shape_and_global_offset(shape, mesh_shape, at.__getitem__, layout)[0]
        for at in ranks
    ]
    return tuple(max(sizes) for sizes in zip(*locals_, strict=True))


@pytest.mark.parametrize(
    ("layout", "size", "largest"),
    [
        ((S(0), R), 7, 4),
        ((S(0), S(0)), 7, 2),
        # Of 4 rows in pieces of 2, 2 and 0, a rank has 1 of each; of 3 in pieces of 1 it has all.
        ((S(0), _StridedShard(0, split_factor=3)), 7, 3),
        ((R, _StridedShard(0, split_factor=3)), 4, 2),
        ((R, _StridedShard(0, split_factor=2)), 10, 4),
        ((S(0), _StridedShard(0, split_factor=2)), 0, 0),
        # Of 7 in pieces of 3, 3 and 1, a rank has 1 of each.
        ((R, _StridedShard(0, split_factor=3)), 7, 3),
    ],
    ids=str,
)
def test_the_largest_shard_is_not_always_that_of_the_largest_piece(
    layout: Any, size: int, largest: int
) -> None:
    assert largest_shard((size,), (2, 3), layout) == by_torch((size,), (2, 3), layout) == (largest,)


def test_a_rank_beyond_the_last_piece_has_nothing_of_it() -> None:
    """Of 16 rows in five pieces of 3 and one of 1, three ranks hold 6, 5 and 5."""
    layout = (_StridedShard(0, split_factor=6), _StridedShard(0, split_factor=4))
    assert largest_shard((16,), (3, 2), layout) == by_torch((16,), (3, 2), layout) == (3,)


@pytest.mark.slow
@pytest.mark.parametrize("mesh_shape", [(4,), (2, 3), (4, 2), (2, 3, 2), (1, 8)], ids=str)
@pytest.mark.parametrize("shape", [(16, 7), (5,), (24, 1, 13), (0, 4)], ids=str)
def test_equal_to_torch_on_all_ranks(mesh_shape: Any, shape: Any) -> None:
    dims = range(len(shape))
    kinds = [R, *(S(d) for d in dims)]
    kinds += [_StridedShard(d, split_factor=f) for d in dims for f in (2, 3)]
    layouts = [*itertools.product(kinds, repeat=len(mesh_shape))]
    for layout in random.Random(0).sample(layouts, min(len(layouts), 150)):
        assert largest_shard(shape, mesh_shape, layout) == by_torch(shape, mesh_shape, layout)


def test_shapes_go_by_strategy(mesh_of: Any) -> None:
    mesh, args = mesh_of(2, 4), (meta_of((10, 32)), meta_of((32, 7)))
    found = shardprop.strategies(torch.ops.aten.mm.default, args, mesh=mesh)
    operands, outputs = found.local_shapes()
    assert [each.shape for each in (*operands, *outputs) if each is not None] == [
        (len(found), 2)
    ] * 3
    for i, strategy in enumerate(found):
        for k in range(2):
            expected = by_torch(args[k].shape, (2, 4), strategy.operands[k])
            assert tuple(operands[k][i].tolist()) == expected
        assert outputs[0] is not None
        expected = by_torch((10, 7), (2, 4), strategy.outputs[0])
        assert tuple(outputs[0][i].tolist()) == expected


def test_absent_outputs_have_no_shape(mesh_of: Any) -> None:
    x, w = meta_of((8, 16)), meta_of((16,))
    stat = meta_of((8, 1))
    found = shardprop.strategies(
        torch.ops.aten.native_layer_norm_backward.default,
        (x, x, [16], stat, stat, w, w, [True, False, True]),
        mesh=mesh_of(4),
    )
    assert found.output_metas[1] is None
    assert (found.outputs[:, 1] == -1).all() and (found.outputs[:, 0] >= 0).all()
    _, outputs = found.local_shapes()
    assert [None if each is None else each.shape for each in outputs] == [
        (len(found), 2),
        None,
        (len(found), 1),
    ]
    assert found[0].outputs[1] is None
