"""Which rank holds which block: against what torch itself gives each rank."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import Shard, _StridedShard

from shardprop import Layout, ShardpropError
from shardprop.inspection.report import blocks
from shardprop.inspection.report.geometry import Block
from shardprop.inspection.report.subject import subject_of

from ...specs import SS, P, R, S, meta_of

MESHES = [(2,), (5,), (2, 2), (3, 2), (1, 4), (2, 2, 2), (2, 3, 2)]


def held_by(block: Block, whole: torch.Tensor) -> torch.Tensor:
    for dim, ranges in enumerate(block.intervals):
        index = [i for start, stop in ranges for i in range(start, stop)]
        whole = whole.index_select(dim, torch.tensor(index, dtype=torch.long))
    return whole


def cut_by_torch(
    whole: torch.Tensor,
    cuts: Sequence[tuple[int, Placement]],
    mesh_shape: Sequence[int],
    at: Sequence[int],
) -> torch.Tensor:
    """The cuts made one after the other by torch's own split."""
    for mesh_dim, placement in cuts:
        assert isinstance(placement, (Shard, _StridedShard))
        split, _ = placement._split_tensor(whole, mesh_shape[mesh_dim], with_padding=False)
        whole = split[at[mesh_dim]]
    return whole


def whole_of(shape: Sequence[int]) -> torch.Tensor:
    return torch.arange(math.prod(shape)).view(*shape)


def random_placements(rng: random.Random, dims: int, mesh_shape: Sequence[int]) -> list[Placement]:
    choices = [R, P, *map(S, range(dims)), *map(S, range(dims))]
    choices += [SS(rng.randrange(dims), rng.choice([2, 3, 4])) for _ in range(2)]
    return [rng.choice(choices) for _ in mesh_shape]


@pytest.mark.parametrize("mesh_shape", MESHES, ids=str)
def test_a_layout_cut_from_left_to_right_is_torchs_split_on_every_rank(mesh_shape) -> None:
    rng = random.Random(repr(mesh_shape))
    for _ in range(60):
        shape = tuple(rng.choice([1, 3, 4, 7, 12, 13]) for _ in range(rng.choice([1, 2, 3])))
        placements = tuple(random_placements(rng, len(shape), mesh_shape))
        whole = whole_of(shape)
        cuts = [(m, p) for m, p in enumerate(placements) if isinstance(p, (Shard, _StridedShard))]
        found = blocks(Layout(placements, ()), shape, mesh_shape)
        assert [block.rank for block in found] == list(range(math.prod(mesh_shape)))
        for block in found:
            expected = cut_by_torch(whole, cuts, mesh_shape, block.coordinate)
            assert torch.equal(held_by(block, whole), expected), (placements, shape, block)
            assert block.shape == tuple(expected.shape)
            assert block.empty == (expected.numel() == 0)


@pytest.mark.parametrize("mesh_shape", MESHES, ids=str)
def test_shapes_and_offsets_are_torchs(mesh_shape) -> None:
    rng = random.Random(1)
    for _ in range(60):
        shape = tuple(rng.choice([1, 3, 4, 7, 12, 13]) for _ in range(rng.choice([1, 2])))
        placements = tuple(random_placements(rng, len(shape), mesh_shape))
        for block in blocks(Layout(placements, ()), shape, mesh_shape):
            local, offset = _compute_local_shape_and_global_offset(
                shape, mesh_shape, list(block.coordinate), placements
            )
            assert block.shape == tuple(local)
            if not block.empty:
                assert tuple(ranges[0][0] for ranges in block.intervals) == tuple(offset)


@pytest.mark.parametrize("mesh_shape", [(2, 2), (3, 2), (2, 2, 2), (2, 3, 2)], ids=str)
def test_the_shard_order_says_which_mesh_dim_cuts_first(mesh_shape) -> None:
    placements = (S(0),) * len(mesh_shape)
    for order in itertools.permutations(range(len(mesh_shape))):
        for size in (12, 13, 7):
            whole = whole_of((size, 2))
            cuts = [(mesh_dim, S(0)) for mesh_dim in order]
            for block in blocks(Layout(placements, ((0, order),)), (size, 2), mesh_shape):
                expected = cut_by_torch(whole, cuts, mesh_shape, block.coordinate)
                assert torch.equal(held_by(block, whole), expected)


@pytest.mark.parametrize("size", [12, 13, 7, 24])
def test_a_spec_whose_strided_shards_are_an_order_is_what_torch_redistributes_to(
    mesh_of, size
) -> None:
    """Carried out by torch for all ranks at once."""
    from torch.distributed._local_tensor import LocalTensorMode
    from torch.distributed.tensor._redistribute import redistribute_local_tensor

    mesh: DeviceMesh = mesh_of(2, 3)
    whole = whole_of((size, 2))
    source = DTensorSpec(mesh, (R, R), meta_of(whole.shape, whole.dtype))
    for order in ((0, 1), (1, 0)):
        entries = (ShardOrderEntry(0, order),)
        strided = DTensorSpec._convert_shard_order_to_StridedShard(entries, (S(0), S(0)), mesh)
        target = DTensorSpec(mesh, strided, meta_of(whole.shape, whole.dtype))
        assert target.use_strided_shard_as_shard_order == (order == (1, 0))
        with LocalTensorMode(6) as mode:
            local = redistribute_local_tensor(
                mode.rank_map(lambda rank: whole.clone()), source, target
            )
        per_rank = getattr(local, "_local_tensors", None)
        assert per_rank is not None
        for block in subject_of(target).blocks:
            assert torch.equal(held_by(block, whole), per_rank[block.rank]), (order, block)


def test_strided_shards_that_are_no_order_cut_from_left_to_right(mesh_of) -> None:
    whole = whole_of((24,))
    placements = (SS(0, 4), S(0))
    for is_order in (True, False):
        spec = DTensorSpec(
            mesh_of(2, 3),
            placements,
            meta_of((24,)),
            use_strided_shard_as_shard_order=is_order,
        )
        for block in subject_of(spec).blocks:
            expected = cut_by_torch(whole, list(enumerate(placements)), (2, 3), block.coordinate)
            assert torch.equal(held_by(block, whole), expected)


def test_a_strided_shard_holds_several_ranges() -> None:
    first, second = blocks(Layout((SS(0, 2),), ()), (8, 3), (2,))
    assert first.intervals == (((0, 2), (4, 6)), ((0, 3),))
    assert second.intervals == (((2, 4), (6, 8)), ((0, 3),))
    assert first.boxes == (((0, 2), (0, 3)), ((4, 6), (0, 3)))


def test_ranges_that_touch_are_one() -> None:
    # The one rank of the mesh gets all four strips.
    assert blocks(Layout((SS(0, 4),), ()), (4,), (1,))[0].intervals == (((0, 4),),)


def test_copies_and_pending_sums_are_named_by_mesh_dim() -> None:
    for block in blocks(Layout((R, S(0), P, R), ()), (4,), (2, 2, 2, 1)):
        assert block.copied_over == (0,)  # a mesh dim of size 1 has no second rank
        assert block.pending_over == (2,)


def test_a_rank_that_gets_nothing_holds_nothing() -> None:
    *_, last = blocks(Layout((S(0),), ()), (3, 2), (4,))
    assert last.empty and last.intervals == ((), ((0, 2),)) and last.boxes == ()


def test_a_scalar_is_one_block() -> None:
    (block, _) = blocks(Layout((R,), ()), (), (2,))
    assert block.shape == () and block.boxes == ((),) and not block.empty


@pytest.mark.parametrize(
    "layout, shape, mesh_shape, text",
    [
        (Layout((S(0),), ()), (4,), (2, 2), "a placement for each of 2 mesh dims, got 1"),
        (Layout((S(1),), ()), (4,), (2,), "one of 1 tensor dims, got S\\(1\\)"),
        (Layout((S(0),), ()), (4.5,), (2,), "shape: Expected whole numbers of at least 0"),
        (Layout((S(0),), ()), (4,), (0,), "mesh_shape: Expected whole numbers of at least 1"),
        (Layout((S(0), R), ((0, (1,)),)), (4,), (2, 2), "order of mesh dims \\[0\\]"),
        (Layout((S(0), S(0)), ((0, (1, 1)),)), (4,), (2, 2), "order of mesh dims \\[0, 1\\]"),
        (Layout((S(0), R), ((1, (0,)),)), (4, 4), (2, 2), "order of tensor dims that are sharded"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(layout, shape, mesh_shape, text) -> None:
    with pytest.raises(ShardpropError, match=text):
        blocks(layout, shape, mesh_shape)
