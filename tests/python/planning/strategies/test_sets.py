"""The strategies are those that torch's own expansion keeps for the same sources."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

import shardprop
from shardprop.propagation.route import Who, route_of

from ...narrow import known
from .oracle import Wrapped, many_sources, meta_of, union_over_firsts, without_masks

aten = torch.ops.aten
R, P, S = Replicate(), Partial(), Shard


def SS(dim: int, factor: int) -> _StridedShard:
    return _StridedShard(dim, split_factor=factor)


m = meta_of
CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "add": (aten.add.Tensor, (m((16, 24)), m((16, 24)))),
    "add_broadcast": (aten.add.Tensor, (m((16, 24)), m((24,)))),
    "add_uneven": (aten.add.Tensor, (m((3, 10)), m((3, 10)))),
    "addmm": (aten.addmm.default, (m((24,)), m((16, 8)), m((8, 24)))),
    "baddbmm": (aten.baddbmm.default, (m((8, 4, 4)), m((8, 4, 6)), m((8, 6, 4)))),
    "bmm": (aten.bmm.default, (m((8, 16, 12)), m((8, 12, 20)))),
    "clone": (aten.clone.default, (m((8, 6)),)),
    "embedding": (aten.embedding.default, (m((32, 16)), m((8, 4), torch.int64))),
    "layer_norm": (aten.native_layer_norm.default, (m((8, 4, 16)), [16], m((16,)), m((16,)), 1e-5)),
    "mm": (aten.mm.default, (m((16, 32)), m((32, 24)))),
    "mm_uneven": (aten.mm.default, (m((5, 9)), m((9, 3)))),
    "mul": (aten.mul.Tensor, (m((16, 4)), m((16, 4)))),
    "relu": (aten.relu.default, (m((6, 8, 4)),)),
    "where": (aten.where.self, (m((8, 8), torch.bool), m((8, 8)), m((8, 8)))),
}
MESHES = [(4,), (2, 4), (2, 2, 2)]
# Per operand; torch is asked once for each combination where it goes by what comes first.
SOURCES = 3
# On three mesh dims torch takes seconds for each.
ON_THREE = {"add_uneven", "bmm", "embedding", "mm"}


def random_sources(dice: random.Random, mesh: Any, args: Any, strided: bool) -> list[list[Any]]:
    """Per tensor a few layouts, the first of the first operand with a plain shard."""
    chosen = []
    for meta in (x for x in args if hasattr(x, "dtype")):
        dims = range(len(meta.shape))
        kinds = [R, P, *(S(d) for d in dims)]
        if strided:
            kinds += [SS(d, f) for d in dims for f in (2, 4)]
        layouts = {tuple(dice.choice(kinds) for _ in range(mesh.ndim)) for _ in range(SOURCES)}
        chosen.append([*dict.fromkeys(layouts)])
    chosen[0][0] = (S(0),) * mesh.ndim
    return [[*dict.fromkeys(layouts)] for layouts in chosen]


def _unmasked(strategy: shardprop.Strategy) -> Any:
    outputs, operands = strategy
    return tuple(map(without_masks, map(known, outputs))), tuple(map(without_masks, operands))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, shape) for name in CALLS for shape in MESHES if len(shape) < 3 or name in ON_THREE],
    ids=str,
)
@pytest.mark.parametrize("strided", [False, True], ids=["plain", "strided"])
def test_equal_sets(name: str, shape: tuple[int, ...], strided: bool, mesh_of: Any) -> None:
    op, args = CALLS[name]
    mesh = mesh_of(*shape)
    dice = random.Random(f"{name}{shape}{strided}")
    for _ in range(2 if mesh.ndim < 3 else 1):
        sources = random_sources(dice, mesh, args, strided)
        found = shardprop.strategies(op, args, mesh=mesh, sources=sources, rules="torch")
        ours = [_unmasked(each) for each in found]
        expected = union_over_firsts(op, mesh, args, sources)
        assert len(expected) > 1
        assert {*ours} == expected
        assert len({*ours}) == len(ours)


@pytest.mark.slow
@pytest.mark.parametrize("op", [aten.add_.Tensor, aten.mul_.Tensor, aten.relu_.default], ids=str)
def test_in_place_ops_keep_any_layout_of_what_they_write(op: Any, mesh_of: Any) -> None:
    mesh = mesh_of(2, 4)
    # Large enough for every shard: an operand that is too small stays where a source has it.
    args = (m((16, 32)),) * (1 if op is aten.relu_.default else 2)
    sources: list[list[tuple[Placement, ...]]] = [[(S(0), R), (SS(1, 2), P)], [(R, S(1))]]
    sources = sources[: len(args)]
    ours = {*shardprop.strategies(op, args, mesh=mesh, sources=sources, rules="torch")}
    kinds: list[Placement] = [
        R,
        P,
        Partial("avg"),
        Partial("max"),
        Partial("min"),
        Partial("product"),
    ]
    kinds += [S(0), S(1), SS(0, 2), SS(1, 2)]
    everywhere: list[list[tuple[Placement, ...]]] = [
        [*itertools.product(kinds, repeat=2)],
        *sources[1:],
    ]
    written = {layouts[1][0] for layouts in ours}
    assert written <= {*everywhere[0]}
    # torch goes by the first layout of what is written; the others are there for their kinds.
    expected = set()
    with many_sources():
        for layout in everywhere[0]:
            firsts = [[layout, *sources[0]], *everywhere[1:]]
            expected |= Wrapped(op, mesh, args, firsts).expanded()
    assert ours == expected
    assert (SS(1, 2), R) in written


def test_what_is_written_in_place_is_placed_as_the_output(mesh_of: Any) -> None:
    args, mesh = (m((16, 24)), m((24,))), mesh_of(4)
    found = {*shardprop.strategies(aten.add_.Tensor, args, mesh=mesh)}
    elsewhere = {*shardprop.strategies(aten.add.Tensor, args, mesh=mesh)} - found
    assert (((S(1),),), ((S(1),), (S(0),))) in found
    assert all(outputs[0] == operands[0] for outputs, operands in found)
    assert elsewhere
    assert all(outputs[0] != operands[0] for outputs, operands in elsewhere)


def test_out_argument_is_placed_as_the_output(mesh_of: Any) -> None:
    mesh = mesh_of(2, 4)
    args, kwargs = (m((16, 8)), m((16, 8))), {"out": m((16, 8))}
    found = shardprop.strategies(aten.add.out, args, kwargs, mesh=mesh, rules="torch")
    assert found.operands.shape[1] == 3
    assert (found.outputs[:, 0] == found.operands[:, 2]).all()
    shards: list[Placement] = [R, S(0), S(1)]
    written = [*itertools.product(shards, repeat=2)]
    sources: list[list[tuple[Placement, ...]]] = [[(S(0), S(1))], [(R, R)]]
    expected = set()
    with many_sources():
        for layout in written:
            expected |= Wrapped(aten.add.out, mesh, args, [*sources, [layout]], kwargs).expanded()
    expected = {each for each in expected if each[0][0] == each[1][2]}
    ours = {each for each in found if each.outputs[0] in written}
    assert ours == expected


FLOAT8 = m((32, 32), torch.float8_e4m3fn)
KEPT: dict[str, tuple[Any, tuple[Any, ...], int, _StridedShard, _StridedShard | None]] = {
    # The operand that comes strided, its shard, and what becomes of it in the output.
    "addmm": (*CALLS["addmm"], 1, SS(0, 4), SS(0, 4)),
    "baddbmm": (*CALLS["baddbmm"], 1, SS(0, 2), SS(0, 2)),
    "bmm": (*CALLS["bmm"], 1, SS(2, 4), SS(2, 4)),
    "mm": (*CALLS["mm"], 0, SS(0, 2), SS(0, 2)),
    "mm_inner": (*CALLS["mm"], 0, SS(1, 4), None),
    "scaled_mm": (
        aten._scaled_mm.default,
        (FLOAT8, FLOAT8._replace(stride=(1, 32)), m(()), m(()), None, None, torch.bfloat16),
        0,
        SS(0, 4),
        SS(0, 4),
    ),
    "view": (aten.view.default, (m((16, 8, 4)), [128, 4]), 0, SS(0, 2), SS(0, 2)),
}


@pytest.mark.parametrize("name", KEPT)
def test_strided_shards_of_producers_are_kept(name: str, mesh_of: Any) -> None:
    op, args, operand, there, after = KEPT[name]
    mesh = mesh_of(2, 2)
    tensors = [x for x in args if hasattr(x, "dtype")]
    sources: list[Any] = [[(R, R)] for _ in tensors]
    sources[operand] = [(R, R), (there, R)]
    found = shardprop.strategies(op, args, mesh=mesh, sources=sources)
    kept = [each for each in found if each.operands[operand] == (there, R)]
    assert kept
    if after is None:  # it is summed over
        assert any(isinstance(each.outputs[0][0], Partial) for each in kept if each.outputs[0])
    else:
        assert any(each.outputs[0] == (after, R) for each in kept)


def test_strided_shards_are_left_out_on_demand(mesh_of: Any) -> None:
    op, args = CALLS["mm"]
    mesh = mesh_of(2, 4)
    sources = [[(SS(0, 2), R), (S(0), R)], [(R, R)]]
    plain = shardprop.strategies(op, args, mesh=mesh, sources=sources, strided=False)
    assert {*plain} == {*shardprop.strategies(op, args, mesh=mesh, sources=[[(S(0), R)], [(R, R)]])}
    assert len(shardprop.strategies(op, args, mesh=mesh, sources=sources)) > len(plain)


def test_order_is_that_of_the_product(mesh_of: Any) -> None:
    op, args = CALLS["mm"]
    on_line = [*shardprop.strategies(op, args, mesh=mesh_of(2))]
    outputs = [each.outputs[0] for each in shardprop.strategies(op, args, mesh=mesh_of(2, 2))]
    product = [a.outputs[0] + b.outputs[0] for a in on_line for b in on_line]
    kept = iter(product)
    assert all(each in kept for each in outputs)  # in that order
    assert outputs[0] == (R, R)


def test_same_question_same_arrays(mesh_of: Any) -> None:
    op, args = CALLS["bmm"]
    one, two = (shardprop.strategies(op, args, mesh=mesh_of(2, 4)) for _ in range(2))
    assert np.array_equal(one.operands, two.operands)
    assert np.array_equal(one.outputs, two.outputs)
    assert [one.layouts[i] for i in range(len(one.layouts))] == [
        two.layouts[i] for i in range(len(two.layouts))
    ]


DECOMPOSED = {
    "hardswish": (aten.hardswish.default, (m((16, 24)),)),
    "hardswish_backward": (aten.hardswish_backward.default, (m((16, 24)), m((16, 24)))),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_decomposed_ops_take_the_rows_of_their_decomposition(name: str, mesh_of: Any) -> None:
    op, args = DECOMPOSED[name]
    assert route_of(op).who is Who.DECOMPOSITION
    mesh = mesh_of(2, 4)
    sources = [[(S(0), R), (SS(0, 2), P)]] + [[(R, R)]] * (len(args) - 1)
    found = {*shardprop.strategies(op, args, mesh=mesh, sources=sources)}
    shards = [R, S(0), S(1), SS(0, 2), SS(1, 2)]
    alike = {(p,) * (1 + len(args)) for p in itertools.product(shards, repeat=2)}
    assert {(*outputs, *operands) for outputs, operands in found} == {
        row for row in alike if not {SS(1, 2), SS(0, 2)} & {*row[0]} or _fits(row[0], (16, 24))
    }


def _fits(layout: Any, shape: tuple[int, int]) -> bool:
    """torch asks for an element per piece, a strided shard being so many times as many pieces."""
    pieces = [1, 1]
    for ranks, placement in zip((2, 4), layout, strict=True):
        if placement == R:
            continue
        pieces[placement.dim] *= ranks
        factor = getattr(placement, "split_factor", 1)
        if shape[placement.dim] < pieces[placement.dim] * factor:
            return False
    return True


def test_plain_shards_are_offered_though_no_source_has_one(mesh_of: Any) -> None:
    mesh, args = mesh_of(2, 4), (m((16, 32)), m((32, 24)))
    sources: list[list[tuple[Placement, ...]]] = [[(R, R)], [(R, R)]]
    found = shardprop.strategies(aten.mm.default, args, mesh=mesh, sources=sources, rules="torch")
    assert {*found} == union_over_firsts(aten.mm.default, mesh, args, [[(R, S(0))], [(R, R)]])


FOLLOWING: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "cumsum": (aten.cumsum.default, (m((8, 16, 4)), 1)),
    "permute": (aten.permute.default, (m((8, 16, 4)), [2, 0, 1])),
    "slice": (aten.slice.Tensor, (m((8, 16, 4)), 1, 0, 5)),
    "softmax": (aten._softmax.default, (m((8, 16, 4)), 1, False)),
    "split": (aten.split.Tensor, (m((8, 16, 4)), 4, 1)),
    "sum": (aten.sum.dim_IntList, (m((8, 16, 4)), [1])),
    "t": (aten.t.default, (m((8, 16)),)),
    "view": (aten.view.default, (m((8, 16, 4)), [128, 4])),
    "view_split": (aten.view.default, (m((128, 4)), [8, 16, 4])),
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_ops_that_follow_have_a_strategy_for_each_source(name: str, mesh_of: Any) -> None:
    op, args = FOLLOWING[name]
    if op not in shardprop._torch.propagator().op_strategy_funcs:
        pytest.skip("torch has a single-dim rule for it")
    mesh = mesh_of(2, 4)
    dims = range(len(args[0].shape))
    kinds = [R, P, *(S(d) for d in dims), *(SS(d, 2) for d in dims)]
    sources = [*itertools.product(kinds, repeat=2)]
    ours = [*shardprop.strategies(op, args, mesh=mesh, sources=[sources], rules="torch")]
    expected: dict[Any, None] = {}
    skipped = 0
    with many_sources():
        for source in (*sources, (R, R)):
            try:
                followed = Wrapped(op, mesh, args, [[source]]).followed()
            except Exception:  # torch refuses some strided sources of views
                skipped += 1
                continue
            expected.update(dict.fromkeys(followed))
    assert len(expected) > 1
    assert skipped < len(sources) / 2
    if any(operands == () for _, operands in expected):  # torch does not say where it wants some
        ours = [(outputs, ()) for outputs, _ in ours]
        expected = {(outputs, ()): None for outputs, _ in expected}
    assert _all_alike(ours) == _all_alike(expected)


def _all_alike(found: Any) -> list[Any]:
    """Each once; torch gives a list of outputs one spec, or one for each."""
    return [*dict.fromkeys((tuple(dict.fromkeys(outputs)), rest) for outputs, rest in found)]
