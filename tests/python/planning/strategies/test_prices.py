"""Prices in one call are those of each pair; a function is asked for each distinct pair once."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

import shardprop
from shardprop import _core
from shardprop._torch import make_spec

from .oracle import meta_of

aten = torch.ops.aten
R, P, S = Replicate(), Partial(), Shard


def layouts_of(dice: random.Random, mesh: Any, dims: int, count: int, strided: bool) -> list[Any]:
    kinds: list[Any] = [R, P, *(S(d) for d in range(dims))]
    if strided:
        kinds += [_StridedShard(d, split_factor=f) for d in range(dims) for f in (2, 3)]
    if dice.random() < 0.3:
        kinds[1] = Partial("max")
    found = {tuple(dice.choice(kinds) for _ in range(mesh.ndim)) for _ in range(count)}
    return [*dict.fromkeys(found)]


@pytest.mark.parametrize("shape", [(8,), (2, 4), (8, 8), (1, 4, 2), (4, 4, 4)], ids=str)
@pytest.mark.parametrize("size", [(64, 64), (7, 12), (16, 3, 32), (5,)], ids=str)
@pytest.mark.parametrize("limit", [None, 3000.0], ids=["any memory", "limited"])
def test_equal_to_pairwise(
    shape: tuple[int, ...], size: tuple[int, ...], limit: float | None, mesh_of: Any
) -> None:
    mesh, meta = mesh_of(*shape), meta_of(size)
    dice = random.Random(f"{shape}{size}{limit}")
    topology = shardprop.load_topology("h100-nvlink")
    planner = shardprop.ExactPlanner(topology, memory_limit=limit)
    for strided in (False, True):
        sources = layouts_of(dice, mesh, len(size), 7, strided)
        targets = layouts_of(dice, mesh, len(size), 12, strided)
        table = planner.prices(meta, mesh, sources, targets)
        assert table.shape == (len(targets), len(sources))
        for (t, target), (s, source) in itertools.product(enumerate(targets), enumerate(sources)):
            pair = make_spec(mesh, source, meta), make_spec(mesh, target, meta)
            assert table[t, s] == planner.price(*pair).us


def test_all_plain_layouts_on_three_mesh_dims(mesh_of: Any) -> None:
    mesh, meta = mesh_of(4, 4, 4), meta_of((256, 256, 96))
    planner = shardprop.ExactPlanner(shardprop.load_topology("h100-nvlink"))
    layouts = [*itertools.product([R, P, S(0), S(1), S(2)], repeat=3)]
    table = planner.prices(meta, mesh, layouts, layouts)
    assert (np.diag(table) == 0.0).all()
    for t, s in random.Random(5).sample([*itertools.product(range(125), repeat=2)], 300):
        pair = make_spec(mesh, layouts[s], meta), make_spec(mesh, layouts[t], meta)
        assert table[t, s] == planner.price(*pair).us


def test_limit_on_memory_leaves_pairs_without_a_plan(mesh_of: Any) -> None:
    mesh, meta = mesh_of(8), meta_of((64, 64))
    topology = shardprop.load_topology("h100-nvlink")
    planner = shardprop.ExactPlanner(topology, memory_limit=64 * 64 * 4 / 2)
    table = planner.prices(meta, mesh, [(S(0),)], [(R,), (S(0),)])
    assert table.tolist() == [[float("inf")], [0.0]]


def test_layouts_of_another_length_are_refused(mesh_of: Any) -> None:
    planner = shardprop.ExactPlanner(shardprop.load_topology("h100-nvlink"))
    with pytest.raises(shardprop.ShardpropError, match=r"to_layouts\[1\]: Expected 2 placements"):
        planner.prices(meta_of((8, 8)), mesh_of(2, 4), [(R, R)], [(R, R), (R,)])


def test_mixed_partials_are_no_layout(mesh_of: Any) -> None:
    planner = shardprop.ExactPlanner(shardprop.load_topology("h100-nvlink"))
    with pytest.raises(_core.Unsupported, match="mixed partials"):
        planner.prices(meta_of((8, 8)), mesh_of(2, 4), [(P, Partial("max"))], [(R, R)])


SOURCES = [(R, R), (S(0), S(1)), (S(1), R), (S(0), S(0))]


def test_matrices_are_those_of_the_planner(mesh_of: Any) -> None:
    mesh, args = mesh_of(2, 4), (meta_of((64, 32)), meta_of((32, 48)))
    planner = shardprop.ExactPlanner(shardprop.load_topology("h100-nvlink"))
    for prices in (planner, "h100-nvlink", shardprop.load_topology("h100-nvlink")):
        found = shardprop.strategies(
            aten.mm.default, args, mesh=mesh, sources=[SOURCES, SOURCES[:2]], prices=prices
        )
        assert found.prices is not None
        assert [p.shape for p in found.prices] == [(len(found), 4), (len(found), 2)]
        for k, i in itertools.product(range(2), range(len(found))):
            wanted = make_spec(mesh, found[i].operands[k], args[k])
            for p, source in enumerate(SOURCES[: (4, 2)[k]]):
                price = planner.price(make_spec(mesh, source, args[k]), wanted).us
                assert found.prices[k][i, p] == price


def test_wanted_and_price_table_make_up_the_matrix(mesh_of: Any) -> None:
    args = meta_of((64, 32)), meta_of((32, 48))
    found = shardprop.strategies(aten.mm.default, args, mesh=mesh_of(2, 4), prices="h100-nvlink")
    assert found.prices is not None
    for k in range(2):
        distinct, classes = found.wanted(k)
        assert len({*distinct.tolist()}) == len(distinct)
        assert np.array_equal(distinct[classes], found.operands[:, k])
        assert np.array_equal(found.price_table(k)[classes], found.prices[k])


def test_function_is_asked_once_for_each_distinct_pair(mesh_of: Any) -> None:
    mesh, meta = mesh_of(2, 4), meta_of((32, 32))
    asked: Counter[Any] = Counter()

    def price(src: Any, dst: Any) -> float:
        assert src.mesh is mesh and dst.tensor_meta == meta
        asked[src.placements, dst.placements] += 1
        return 10.0 * (src.placements != dst.placements)

    sources = [*SOURCES, SOURCES[0]]  # one twice
    found = shardprop.strategies(
        aten.add.Tensor, (meta, meta), mesh=mesh, sources=[sources, sources], prices=price
    )
    assert not asked  # until somebody looks
    assert found.prices is not None
    wanted = {each.operands[k] for each in found for k in range(2)}
    assert {*asked} == {*itertools.product(SOURCES, wanted)}
    assert {*asked.values()} == {1}
    assert np.array_equal(found.prices[0][:, 0], found.prices[0][:, 4])
    stays = found.operands[:, 1] == found.layouts.id(SOURCES[1])
    assert np.array_equal(found.prices[1][:, 1], np.where(stays, 0.0, 10.0))


@pytest.mark.parametrize("answer", [float("nan"), None, "dear"], ids=str)
def test_price_that_is_none(answer: Any, mesh_of: Any) -> None:
    found = shardprop.strategies(
        aten.relu.default, (meta_of((8, 8)),), mesh=mesh_of(4), prices=lambda src, dst: answer
    )
    with pytest.raises(shardprop.ShardpropError, match="Expected a number of microseconds from"):
        _ = found.prices


def test_masks_of_indices_have_a_price(mesh_of: Any) -> None:
    args = meta_of((64, 32)), meta_of((8, 4), torch.int64)
    found = shardprop.strategies(
        aten.embedding.default, args, mesh=mesh_of(4), prices="h100-nvlink"
    )
    names = [type(each.operands[1][0]).__name__ for each in found]
    assert names.count("_MaskPartial") == 1
    assert found.prices is not None
    assert np.isfinite(found.prices[0]).all()
    # Indices that are cut already are not gathered to be masked.
    whole = [tuple(found.layouts[number]) == (R,) for number in found.sources[1]]
    for name, reached in zip(names, np.isfinite(found.prices[1]).tolist(), strict=True):
        assert reached == (whole if name == "_MaskPartial" else [True] * len(whole))


def test_without_prices(mesh_of: Any) -> None:
    found = shardprop.strategies(aten.relu.default, (meta_of((8, 8)),), mesh=mesh_of(4))
    assert found.prices is None
    with pytest.raises(shardprop.ShardpropError, match="asked for with prices, got none"):
        found.price_table(0)
