"""Layouts on simulated ranks against torch's own, and round trips through them."""

from __future__ import annotations

import random

import pytest
import torch
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, distribute_tensor
from torch.distributed.tensor._ops._math_ops import _NormPartial
from torch.distributed.tensor.placement_types import _MaskPartial

from shardprop._torch import order_of_strided
from shardprop.verification.simulator.compare import difference, largest
from shardprop.verification.simulator.partials import Untestable, parts, reduced
from shardprop.verification.simulator.ranks import Mismatch, join, local_shapes, split

from ...specs import SS, R, S
from .layouts import MESHES, SHAPES, generator, random_layout

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
REDUCE_OPS = ["sum", "avg", "max", "min", "product"]
BITWISE = ["band", "bor", "bxor"]


def numbered(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


def of_torch(
    whole: torch.Tensor, placements: tuple[Placement, ...], sizes: tuple[int, ...]
) -> list[torch.Tensor]:
    ranks = torch.Size(sizes).numel()
    with LocalTensorMode(ranks):
        mesh = DeviceMesh("cpu", torch.arange(ranks).reshape(sizes))
        if order_of_strided(placements, sizes) is None:
            laid_out = distribute_tensor(whole, mesh, placements, src_data_rank=None)
        else:  # distribute_tensor would cut from left to right, unlike torch's planner
            everywhere = [Replicate()] * len(sizes)
            laid_out = DTensor.from_local(whole, mesh, everywhere).redistribute(mesh, placements)
        local = laid_out.to_local()
        # Where all ranks have the same, it is a plain tensor.
        held = getattr(local, "_local_tensors", {})
        return [held.get(rank, local) for rank in range(ranks)]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", MESHES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_local_tensors_are_those_of_a_dtensor(
    shape: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    chance = random.Random(0)
    whole = numbered(shape)
    for _ in range(12):
        placements = random_layout(shape, sizes, chance, ("R", "S", "SS"))
        ours = split(whole, placements, sizes, generator())
        theirs = of_torch(whole, placements, sizes)
        for mine, other in zip(ours, theirs, strict=True):
            assert torch.equal(mine, other), placements
            assert mine.stride() == other.stride() or not mine.numel(), placements


@pytest.mark.slow
@pytest.mark.parametrize("sizes", MESHES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("reduce_op", REDUCE_OPS)
def test_what_is_split_joins_to_the_whole(
    shape: tuple[int, ...], sizes: tuple[int, ...], reduce_op: str
) -> None:
    chance = random.Random(1)
    for dtype in FLOATS:
        whole = torch.randn(shape, generator=generator()).to(dtype)
        for seed in range(6):
            placements = random_layout(shape, sizes, chance, reduce_op=reduce_op)
            local = split(whole, placements, sizes, generator(seed))
            assert [x.shape for x in local] == list(local_shapes(shape, placements, sizes))
            joined = join(local, placements, sizes, shape)
            scale = max(map(largest, [*local, whole]))
            assert difference(joined, whole, scale) is None, (dtype, placements)


@pytest.mark.parametrize("reduce_op", ["sum", "max", "min", "product", *BITWISE])
@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int8, torch.uint8, torch.bool], ids=lambda d: str(d)[6:]
)
@pytest.mark.parametrize("sizes", [(2,), (3,), (2, 2)], ids=str)
def test_exact_parts_join_exactly(
    reduce_op: str, dtype: torch.dtype, sizes: tuple[int, ...]
) -> None:
    placements = (Partial(reduce_op),) * len(sizes)
    for low in (0, -9):
        whole = torch.randint(low, 10, (6, 5), generator=generator()).to(dtype)
        if dtype is torch.bool:
            whole = torch.randint(0, 2, (6, 5), generator=generator()) > 0
        local = split(whole, placements, sizes, generator())
        assert torch.equal(join(local, placements, sizes, whole.shape), whole)
        assert not all(torch.equal(local[0], other) for other in local[1:])


@pytest.mark.parametrize("reduce_op", ["sum", "max", "min", "bxor"])
def test_parts_of_an_index_stay_within_its_range(reduce_op: str) -> None:
    whole = torch.randint(0, 8, (50,), generator=generator())
    for part in split(whole, [Partial(reduce_op)], (3,), generator()):
        assert int(part.min()) >= 0
        assert int(part.max()) < 8


@pytest.mark.parametrize("reduce_op", REDUCE_OPS)
def test_parts_of_what_is_not_finite_join_to_it(reduce_op: str) -> None:
    inf, nan = float("inf"), float("nan")
    whole = torch.tensor([inf, -inf, nan, 1.0, -2.0])
    local = split(whole, [Partial(reduce_op)], (3,), generator())
    joined = join(local, [Partial(reduce_op)], (3,), whole.shape)
    assert difference(joined, whole, 2.0) is None


def test_parts_differ_between_ranks_and_are_of_the_tensors_scale() -> None:
    whole = torch.randn(40, generator=generator()) * 1e-3
    for reduce_op in REDUCE_OPS[:4]:
        local = split(whole, [Partial(reduce_op)], (2,), torch.Generator().manual_seed(1))
        assert 1e-4 < (local[0] - local[1]).abs().mean() < 1e-2


def test_the_rank_with_the_maximum_differs_between_elements() -> None:
    whole = torch.randn(40, generator=generator())
    first, second = split(whole, [Partial("max")], (2,), generator())
    assert 5 < int((first == whole).sum()) < 35
    assert bool(((first == whole) ^ (second == whole)).all())


def test_norms_of_parts_join_to_the_norm() -> None:
    whole = torch.rand(10, generator=generator())
    local = split(whole, [_NormPartial(2)], (3,), generator())
    assert difference(join(local, [_NormPartial(2)], (3,), whole.shape), whole, 1.0) is None


def test_replicas_share_their_random_parts() -> None:
    whole = torch.randn(6, generator=generator())
    a, b, c, d = split(whole, [R, Partial()], (2, 2), generator())
    assert torch.equal(a, c)
    assert torch.equal(b, d)
    assert not torch.equal(a, b)


@pytest.mark.parametrize("placement", [_MaskPartial(offset_shape=(4, 2), offset_dim=0), S(3)])
def test_other_placements_are_untestable(placement: Placement) -> None:
    with pytest.raises(Untestable):
        split(torch.ones(4, 2), [placement], (2,), generator())


def test_replicas_that_differ_are_no_layout() -> None:
    with pytest.raises(Mismatch, match="replicas on ranks 0 and 1 are not the same"):
        join([torch.zeros(2), torch.ones(2)], [R], (2,), (2,))


def test_local_tensors_of_wrong_shapes_are_no_layout() -> None:
    with pytest.raises(Mismatch, match=r"rank 1 has shape \[2\] instead of \[1\]"):
        join([torch.zeros(2), torch.ones(2)], [S(0)], (2,), (3,))


def test_a_strided_shard_is_put_back_in_order() -> None:
    whole = numbered((13, 2))
    local = split(whole, [SS(0, 3), S(0)], (2, 2), generator())
    assert torch.equal(join(local, [SS(0, 3), S(0)], (2, 2), whole.shape), whole)


def test_elements_that_are_not_finite_must_be_in_the_same_places() -> None:
    nan = float("nan")
    assert difference(torch.tensor([nan, 1.0]), torch.tensor([nan, 1.0]), 1.0) is None
    assert difference(torch.tensor([1.0, nan]), torch.tensor([nan, 1.0]), 1.0) is not None
    assert difference(torch.tensor([float("inf")]), torch.tensor([1.0]), 1.0) is not None


def test_strided_shards_that_stand_for_an_order_are_cuts_in_that_order() -> None:
    rows, placements = numbered((13,)), (SS(0, 2), S(0))
    held = split(rows, placements, (3, 2), generator())
    # Mesh dim 1 cuts 13 in 7 and 6, mesh dim 0 these in 3, 3 and 1, and in 2, 2 and 2.
    assert [local.tolist() for local in held] == [
        [0, 1, 2],
        [7, 8],
        [3, 4, 5],
        [9, 10],
        [6],
        [11, 12],
    ]
    assert local_shapes((13,), placements, (3, 2)) == tuple(tuple(x.shape) for x in held)
    assert torch.equal(join(held, placements, (3, 2), (13,)), rows)


@pytest.mark.parametrize("op", ["band", "bor", "bxor", "sum", "max", "min"])
def test_integers_at_the_ends_of_their_range_have_parts(op: str) -> None:
    info = torch.iinfo(torch.int64)
    whole, rng = torch.tensor([info.min, info.min + 1, -3, info.max]), torch.Generator()
    made = parts(whole, Partial(op), 2, rng.manual_seed(0))
    assert torch.equal(reduced(made, Partial(op)), whole)


@pytest.mark.parametrize("op", ["sum", "avg", "max"])
def test_floats_at_the_end_of_their_range_have_none(op: str) -> None:
    whole = torch.tensor([torch.finfo(torch.float64).max, 1.0], dtype=torch.float64)
    with pytest.raises(Untestable, match="near the largest of its dtype"):
        parts(whole, Partial(op), 2, torch.Generator())
