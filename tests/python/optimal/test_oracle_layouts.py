"""Layouts as the oracle reads them, against torch and by count."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from torch.distributed.tensor import Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.placement_types import _StridedShard

from shardprop.model.plan_steps import Layout

from ..specs import SS, P, R, S, spec_of
from .layouts import (
    all_layouts,
    spec_of_encoded_layout,
    spec_of_layout,
)
from .state import (
    first_part,
    layout_of,
    left_to_right,
    local_shape,
    state_of,
    state_of_spec,
)


@pytest.mark.parametrize("mesh_ndim", [1, 2, 3])
@pytest.mark.parametrize("tensor_ndim", [1, 2, 3])
@pytest.mark.parametrize("ops", [("sum",), ("sum", "max")])
def test_as_many_layouts_as_the_formula_says(mesh_ndim, tensor_ndim, ops) -> None:
    every = list(all_layouts(mesh_ndim, tensor_ndim, ops, every_order=True))
    sizes = (2,) * mesh_ndim
    expected = sum(
        math.comb(mesh_ndim, cut)
        * (1 + len(ops)) ** (mesh_ndim - cut)
        * math.prod(range(tensor_ndim, tensor_ndim + cut))
        for cut in range(mesh_ndim + 1)
    )
    assert len({state_of(layout, sizes, tensor_ndim) for layout in every}) == expected
    assert len(every) == expected
    default = list(all_layouts(mesh_ndim, tensor_ndim, ops))
    assert len(default) == (1 + len(ops) + tensor_ndim) ** mesh_ndim
    assert set(default) <= set(every)


def test_layouts_survive_the_way_through_a_spec(mesh_of) -> None:
    mesh = mesh_of(2, 2, 2)
    for layout in all_layouts(3, 2, every_order=True):
        state = state_of(layout, (2, 2, 2), 2)
        assert layout_of(state) == layout
        assert state_of_spec(spec_of_layout(mesh, (16, 16), layout)) == state


def test_a_mesh_dim_of_size_1_is_in_no_layout() -> None:
    cut = Layout((S(0), S(0)), ((0, (1, 0)),))
    assert state_of(cut, (1, 4), 1) == state_of(left_to_right([R, S(0)]), (1, 4), 1)
    assert state_of(left_to_right([P, S(0)]), (1, 4), 1) == state_of(cut, (1, 4), 1)


def test_an_order_that_leaves_out_a_shard_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Expected an order of \[0, 1\] for tensor dim 0"):
        state_of(Layout((S(0), S(0)), ((0, (1,)),)), (2, 2), 1)


def test_strided_shards_that_encode_an_order_are_that_order(mesh_of) -> None:
    strided = 0
    for layout in all_layouts(3, 2, every_order=True):
        spec = spec_of_encoded_layout(mesh_of(2, 2, 4), (32, 32), layout)
        assert state_of_spec(spec) == state_of(layout, (2, 2, 4), 2)
        strided += any(isinstance(p, _StridedShard) for p in spec.placements)
    assert strided > 20


def test_strided_shards_are_decoded_as_torch_does(mesh_of) -> None:
    rng = random.Random(9)
    values = [R, S(0), S(1), SS(0, 2), SS(0, 4), SS(1, 2), SS(1, 3)]
    decoded = kept = 0
    for _ in range(500):
        sizes = rng.choice([(2, 2, 2), (2, 4, 2), (4, 2, 3), (2, 1, 2), (3, 2, 1)])
        placements = tuple(rng.choice(values if size > 1 else values[:3]) for size in sizes)
        mesh = mesh_of(*sizes)
        order = DTensorSpec._maybe_convert_StridedShard_to_shard_order(placements, mesh)
        state = state_of_spec(spec_of(mesh, (48, 48), placements))
        if order is None:
            assert state == state_of(left_to_right(placements), sizes, 2)
            kept += 1
        else:
            plain = tuple(S(p.dim) if isinstance(p, _StridedShard) else p for p in placements)
            entries = tuple((entry.tensor_dim, entry.mesh_dims) for entry in order)
            assert state == state_of(Layout(plain, entries), sizes, 2)
            decoded += plain != placements
    assert decoded > 15 and kept > 15


def test_strided_shards_stay_where_of_a_view_or_without_meaning(mesh_of) -> None:
    mesh = mesh_of(2, 2)
    strided = state_of(left_to_right([SS(0, 2), S(0)]), (2, 2), 1)
    plain = state_of(Layout((S(0), S(0)), ((0, (1, 0)),)), (2, 2), 1)
    placements = [SS(0, 2), S(0)]
    assert state_of_spec(spec_of(mesh, (8,), placements)) == plain
    assert state_of_spec(spec_of(mesh, (6,), placements)) == plain
    assert state_of_spec(spec_of(mesh, (8,), placements, strided_is_order=False)) == strided
    meaningless = state_of_spec(spec_of(mesh, (8,), [S(0), SS(0, 2)]))
    assert meaningless == state_of(left_to_right([S(0), SS(0, 2)]), (2, 2), 1)


def test_the_first_part_is_what_torch_gives_to_the_first_rank() -> None:
    for size, ranks, factor in itertools.product(range(30), (2, 3, 4), (1, 2, 3, 5)):
        if factor == 1:
            theirs, _ = Shard.local_shard_size_and_offset(size, ranks, 0)
        else:
            theirs, _ = SS(0, factor).local_shard_size_and_offset(size, ranks, 0)
        assert first_part(size, ranks, factor) == theirs, (size, ranks, factor)


def test_cuts_nest_in_shard_order() -> None:
    inner_first = state_of(Layout((S(0), S(0)), ((0, (1, 0)),)), (3, 2), 1)
    # 7 is cut in 4 + 3, then 4 in 2 + 2 + 0; or in 3 + 3 + 1, then 3 in 2 + 1.
    assert local_shape(inner_first, (3, 2), (7,)) == (2,)
    # 5 is cut in 3 + 2, then 3 in 1 + 1 + 1; or in 2 + 2 + 1, then 2 in 1 + 1.
    assert local_shape(inner_first, (3, 2), (5,)) == (1,)
    # 10 in 5 + 5, then 5 in 2 + 2 + 1; or in 4 + 4 + 2, then 4 in 2 + 2.
    assert local_shape(inner_first, (3, 2), (10,)) == (2,)
    # 13 in 7 + 6, then 7 in 3 + 3 + 1.
    assert local_shape(inner_first, (3, 2), (13,)) == (3,)
