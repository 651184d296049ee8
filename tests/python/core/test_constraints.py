"""What placeholders ask of sizes holds for every decision, counted with torch's local shapes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, Shard, distribute_tensor
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import shardprop
from shardprop import ShardingPlaceholder as H
from shardprop import ShardpropError, _core
from shardprop.model.question import question_of
from shardprop.propagation.core_call import choose, prepare
from shardprop.rules import torch_registry

from ..custom_ops import ops, step
from ..narrow import known, rows_rule
from ..specs import SS, P, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]


@pytest.fixture(autouse=True)
def rules() -> Iterator[None]:
    with shardprop.temporary_rules():
        yield


def rows_that_ask(*asks: dict[str, Any]) -> Callable[..., list[list[Any]]]:
    """The rule of `step`: dim d may be cut if what `asks[d]` says holds."""
    return lambda *_: [[H(d, **ask)] * 3 for d, ask in enumerate(asks)]


def local_sizes(
    shape: Sequence[int], mesh: Sequence[int], placements: Sequence[Placement], dim: int
) -> set[int]:
    """What the ranks of a mesh hold of one tensor dim, as torch says."""
    ranks = itertools.product(*map(range, mesh))
    return {
        _compute_local_shape_and_global_offset(
            tuple(shape), tuple(mesh), rank.__getitem__, placements
        )[0][dim]
        for rank in ranks
    }


@pytest.mark.parametrize(
    ("ask", "shape", "cut"),
    [
        ({"even": True}, (8, 8), True),
        ({"even": True}, (6, 8), False),
        ({"min_local": 2}, (8, 8), True),
        ({"min_local": 3}, (8, 8), False),
        ({"min_local": 1}, (7, 8), True),
        ({"min_local": 1}, (9, 8), False),  # 3 3 3 0
        ({"min_local": 2}, (7, 8), False),  # 2 2 2 1
        ({"min_local": 2}, (9, 8), False),  # 3 3 3 0
        ({"multiple_of": 2}, (8, 8), True),
        ({"multiple_of": 3}, (8, 8), False),
        ({"multiple_of": 4}, (24, 8), False),  # 6 6 6 6
        ({"multiple_of": 4}, (20, 8), False),  # 5 5 5 5
        ({"even": True, "min_local": 2, "multiple_of": 2}, (8, 8), True),
    ],
    ids=str,
)
def test_a_row_is_taken_where_the_ask_holds(
    mesh_of: MeshOf, ask: dict[str, Any], shape: tuple[int, int], cut: bool
) -> None:
    shardprop.register_single_dim_rule(step)(rows_that_ask(ask))
    x = spec_of(mesh_of(4), shape, [S(0)])
    (placements,) = shardprop.propagate(ops.step.default, x, x).outputs
    assert placements == ((S(0),) if cut else (R,))


def test_mesh_dims_that_cut_one_dim_count_together(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule(step)(rows_that_ask({"even": True}))
    for size, wanted in ((8, (S(0), S(0))), (12, (S(0), R)), (9, (R, R))):
        x = spec_of(mesh_of(2, 4), (size, 8), [S(0), S(0)])
        (placements,) = shardprop.propagate(ops.step.default, x, x).outputs
        assert sorted(map(str, known(placements))) == sorted(map(str, wanted))


def test_a_row_that_asks_nothing_is_bound_by_one_that_does(mesh_of: MeshOf) -> None:
    """With one row on either mesh dim both cut the same tensor dim: eight pieces are not even."""
    rows: list[list[Any]] = [[P, S(0), S(0)], [H(0), H(0), H(0)]]
    x = spec_of(mesh_of(2, 4), (12, 8), [S(0), S(0)])
    shardprop.register_single_dim_rule(step)(lambda *_: rows)
    assert shardprop.propagate(ops.step.default, x, x).outputs == ((S(0), S(0)),)
    rows[1] = [H(0), H(0), H(0, even=True)]
    assert shardprop.propagate(ops.step.default, x, x).outputs == ((P, P),)
    rows[1] = [H(0, even=True), H(0), H(0)]  # the output is cut once, and evenly
    assert shardprop.propagate(ops.step.default, x, x).outputs == ((S(0), P),)


def test_outputs_ask_of_their_own_sizes(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule(ops.join.default)(
        lambda op, args, kwargs: [[H(1, multiple_of=6), H(1), H(1)]]
    )
    for size, wanted in ((24, S(1)), (20, R)):
        x = spec_of(mesh_of(4), (2, size), [S(1)])
        decision = shardprop.propagate(ops.join.default, [x, x], None, 0)
        assert decision.outputs == ((wanted,),)
        assert decision.operands == ((wanted,), (wanted,))


@pytest.mark.parametrize(("size", "cut"), [(8, True), (4, True), (12, True), (6, False)])
def test_strided_shards_pass_where_all_is_even(mesh_of: MeshOf, size: int, cut: bool) -> None:
    shardprop.register_single_dim_rule(step)(rows_that_ask({"min_local": 1, "even": True}))
    x = spec_of(mesh_of(2, 2), (size, 8), [SS(0, 2), S(0)])
    (placements,) = shardprop.propagate(ops.step.default, x, x).outputs
    assert (placements == (SS(0, 2), S(0))) is cut


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_decisions_honour_every_ask_and_are_the_cheapest(mesh_of: MeshOf, seed: int) -> None:
    """What is chosen passes by torch's count, and no unconstrained answer was passed over."""
    chance = random.Random(seed)
    asked = refused = 0
    for _ in range(60):
        mesh = chance.choice([(2,), (4,), (2, 2), (2, 4), (4, 2), (2, 2, 2)])
        shape = [chance.choice([4, 6, 8, 9, 12, 16, 20, 24, 30]) for _ in range(2)]
        asks = [
            {
                "even": chance.random() < 0.5,
                "min_local": chance.choice([None, 1, 2, 3]),
                "multiple_of": chance.choice([1, 1, 2, 3]),
            }
            for _ in shape
        ]
        x, y = (
            spec_of(mesh_of(*mesh), shape, [chance.choice([R, S(0), S(1)]) for _ in mesh])
            for _ in range(2)
        )
        shardprop.register_single_dim_rule(step, override=True)(rows_that_ask(*asks))
        decision = shardprop.propagate(ops.step.default, x, y)
        shardprop.register_single_dim_rule(step, override=True)(rows_that_ask({}, {}))
        free = shardprop.propagate(ops.step.default, x, y)
        assert decision.cost >= free.cost
        (placements,) = decision.outputs
        assert placements is not None and all_hold(asks, shape, mesh, placements)
        assert free.outputs[0] is not None
        if all_hold(asks, shape, mesh, free.outputs[0]):
            assert decision.outputs == free.outputs and decision.cost == free.cost
            asked += 1
        else:
            refused += 1
    assert asked > 5 and refused > 5


def all_hold(
    asks: Sequence[dict[str, Any]],
    shape: Sequence[int],
    mesh: Sequence[int],
    placements: Sequence[Placement],
) -> bool:
    for dim, ask in enumerate(asks):
        if S(dim) not in placements:
            continue
        sizes = local_sizes(shape, mesh, placements, dim)
        if ask["even"] and len(sizes) > 1:
            return False
        if ask["min_local"] and min(sizes) < ask["min_local"]:
            return False
        if any(size % ask["multiple_of"] for size in sizes):
            return False
    return True


def test_torch_alone_is_not_shown_rows_that_ask(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule(step)(lambda *_: [[H(0, even=True)] * 3, [H(1)] * 3])
    x = distribute_tensor(torch.randn(8, 8), mesh_of(4), [Shard(0)])
    assert step(x, x).placements != (S(0),)
    with shardprop.enabled(strict=True):
        assert step(x, x).placements == (S(0),)
    x = x.redistribute(placements=[Shard(1)])
    assert step(x, x).placements == (S(1),)


def test_sizes_that_are_expressions_are_declined(mesh_of: MeshOf) -> None:
    env = ShapeEnv()
    size = env.create_unbacked_symint()
    shardprop.register_single_dim_rule(step)(rows_that_ask({"even": True}))
    spec = spec_of(mesh_of(2), (8, 8), [S(0)])
    meta = spec.tensor_meta
    assert meta is not None
    symbolic = spec_of(mesh_of(2), (8, 8), [S(0)])
    shape: Any = (size, 8)
    symbolic.tensor_meta = meta._replace(shape=shape)
    schema = torch_registry.op_schema(ops.step.default, (symbolic, symbolic), {})
    rule = rows_rule(ops.step.default)
    with pytest.raises(_core.Unsupported, match="asks something of sizes that are expressions"):
        choose(rule.question(schema, meta), rule)


def test_outputs_of_unknown_size_are_declined(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule(step)(lambda *_: [[H(0, even=True), H(0), H(0)]])
    x = spec_of(mesh_of(2), (8, 8), [S(0)])
    schema = torch_registry.op_schema(ops.step.default, (x, x), {})
    rule = rows_rule(ops.step.default)
    with pytest.raises(_core.Unsupported, match="asks something of an output of unknown size"):
        prepare(question_of(schema, None), rule)


def test_no_decision_is_held_and_no_region_made_of_rows_that_ask(mesh_of: MeshOf) -> None:
    shardprop.register_single_dim_rule(step)(rows_that_ask({"even": True}))
    rule = rows_rule(ops.step.default)
    with shardprop.enabled(strict=True):
        for size in (8, 12, 16, 14, 20, 8):
            x = distribute_tensor(torch.randn(size, 4), mesh_of(4), [Shard(0)])
            assert step(x, x).placements == ((S(0),) if size % 4 == 0 else (R,))
        caches = shardprop.stats().caches
        assert caches["decisions"].entries == caches["rows of rules"].entries == 0
    spec = spec_of(mesh_of(2), (8, 8), [S(0)])
    schema = torch_registry.op_schema(ops.step.default, (spec, spec), {})
    question = rule.question(schema, spec.tensor_meta)
    assert _core.region(prepare(question, rule).problem) is None


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"min_local": 0}, "Expected min_local of 1 or more, got 0"),
        ({"multiple_of": 1.5}, "Expected multiple_of of 1 or more, got 1.5"),
        ({"min_local": True}, "Expected min_local of 1 or more, got True"),
    ],
    ids=str,
)
def test_numbers_below_one_are_refused(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ShardpropError, match=rf"^ShardingPlaceholder\(0\): {message}"):
        H(0, **kwargs)


@pytest.mark.parametrize("dim", [-1, 0.5, True, "0"])
def test_dims_that_are_none_are_refused(dim: Any) -> None:
    with pytest.raises(
        ShardpropError, match=r"^ShardingPlaceholder: Expected a tensor dim of 0 or more, got"
    ):
        H(dim)


def test_a_placeholder_shows_what_it_asks() -> None:
    assert repr(H(1)) == "ShardingPlaceholder(1)"
    asked = H(0, even=True, min_local=2, multiple_of=8)
    assert repr(asked) == "ShardingPlaceholder(0, even=True, min_local=2, multiple_of=8)"
