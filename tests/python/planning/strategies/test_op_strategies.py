"""Strategies from and to torch's own form, and specs as a program makes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import fx
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry
from torch.distributed.tensor._op_schema import OpSchema, OpSpec, OpStrategy
from torch.distributed.tensor.placement_types import _StridedShard

import shardprop
from shardprop import ShardpropError

from .oracle import meta_of

aten = torch.ops.aten
R, P, S = Replicate(), Partial(), Shard
MM, SPLIT = aten.mm.default, aten.split.Tensor
FROM_X = [(S(0), R), (S(0), S(1)), (S(0), P), (R, R)]
FROM_W = [(R, S(1)), (S(0), S(1))]


def asked(mesh: Any, **wishes: Any) -> shardprop.Strategies:
    """The strategies of a product."""
    metas = meta_of((16, 32)), meta_of((32, 64))
    return shardprop.strategies(MM, metas, mesh=mesh, sources=[FROM_X, FROM_W], **wishes)


def same(one: shardprop.Strategies, other: shardprop.Strategies) -> bool:
    return [*one] == [*other]


def test_in_torch_s_form_are_the_same_placements_with_metadata_and_prices(mesh_of: Any) -> None:
    found = asked(mesh_of(2, 4), prices="h100-nvlink")
    strategies = shardprop.to_op_strategy(found).strategies
    assert len(strategies) == len(found) > 10
    for spec, way in zip(strategies, found, strict=True):
        assert isinstance(spec.output_specs, DTensorSpec)
        assert (tuple(spec.output_specs.placements),) == way.outputs
        assert spec.output_specs.tensor_meta == found.output_metas[0]
        assert tuple(tuple(each.placements) for each in spec.input_specs or ()) == way.operands
        assert [each.tensor_meta for each in spec.input_specs or ()] == [*found.operand_metas]
    costs = [spec.redistribute_cost for spec in strategies]
    assert found.prices is not None
    for operand, table in enumerate(found.prices):
        assert [each[operand] for each in costs if each] == table.tolist()


def test_without_prices_there_are_no_costs(mesh_of: Any) -> None:
    assert shardprop.to_op_strategy(asked(mesh_of(2, 2))).strategies[0].redistribute_cost is None


def test_there_and_back(mesh_of: Any) -> None:
    found = asked(mesh_of(2, 4))
    again = shardprop.from_op_strategy(
        MM, shardprop.to_op_strategy(found), sources=[FROM_X, FROM_W], prices="h100-nvlink"
    )
    assert same(again, found)
    priced = asked(mesh_of(2, 4), prices="h100-nvlink")
    for one, other in zip(again.prices or [], priced.prices or [], strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_nothing_is_said_of_comes_as_it_is_wanted(mesh_of: Any) -> None:
    again = shardprop.from_op_strategy(MM, shardprop.to_op_strategy(asked(mesh_of(2, 2))))
    assert [{*each.tolist()} for each in again.sources] == [
        {*column.tolist()} for column in again.operands.T
    ]


def test_torch_takes_them_as_what_an_operand_may_come_in(mesh_of: Any) -> None:
    """torch's own rule of the next op reads our strategies."""
    made = shardprop.to_op_strategy(asked(mesh_of(2, 4)))
    rule = shardprop._torch.full_mesh_rule_of(aten.clone.default)
    if rule is None:  # a rule for one mesh dim
        pytest.skip("torch has no function of full meshes for clone")
    found = rule(OpSchema(aten.clone.default, (made,), {}))
    assert {tuple(each.output_spec.placements) for each in found.strategies} <= {
        tuple(each.output_spec.placements) for each in made.strategies
    }


def test_an_op_s_strategies_are_what_the_next_one_is_asked_with(mesh_of: Any) -> None:
    mesh = mesh_of(2, 4)
    made = asked(mesh)
    by_op_strategy = shardprop.strategies(
        aten.relu.default, (shardprop.to_op_strategy(made),), mesh=mesh
    )
    outputs = [way.outputs[0] for way in made]
    by_layouts = shardprop.strategies(
        aten.relu.default, (meta_of((16, 64)),), mesh=mesh, sources=[outputs]
    )
    assert same(by_op_strategy, by_layouts)
    as_source = shardprop.strategies(
        aten.relu.default,
        (meta_of((16, 64)),),
        mesh=mesh,
        sources=[shardprop.to_op_strategy(made)],
    )
    assert same(as_source, by_layouts)
    assert [as_source.layouts[i] for i in as_source.sources[0]] == outputs


def test_one_of_several_outputs(mesh_of: Any) -> None:
    mesh = mesh_of(4)
    halves = shardprop.strategies(SPLIT, (meta_of((8, 8)), 4), mesh=mesh)
    whole = shardprop.to_op_strategy(halves)
    assert all(
        isinstance(each.output_specs, tuple) and len(each.output_specs) == 2
        for each in whole.strategies
    )
    second = shardprop.strategies(
        aten.relu.default, (meta_of((4, 8)),), mesh=mesh, sources=[(whole, 1)]
    )
    assert [second.layouts[i] for i in second.sources[0]] == [way.outputs[1] for way in halves]


def test_a_list_op_has_one_for_each_element(mesh_of: Any) -> None:
    metas = [meta_of((8, 8)), meta_of((4, 8, 2))]
    found = shardprop.strategies(aten._foreach_abs.default, (metas,), mesh=mesh_of(2, 4))
    made = [shardprop.to_op_strategy(each) for each in found.elements]
    assert [len(each.strategies) for each in made] == [len(x) for x in found.elements]
    with pytest.raises(ShardpropError, match=r"_foreach_abs.*`elements`"):
        shardprop.to_op_strategy(found)


def test_what_attention_returns_beside_its_result_is_on_every_rank(mesh_of: Any) -> None:
    """The seed and its offset, which backward takes; outputs that there are none of stay absent."""
    q = meta_of((4, 8, 16, 32), torch.bfloat16)
    attention = aten._scaled_dot_product_flash_attention.default
    found = shardprop.strategies(attention, (q, q, q, 0.0, True), mesh=mesh_of(2, 4))
    for k, meta in enumerate(found.output_metas):
        there = found.outputs[:, k] >= 0
        assert there.all() if meta is not None else not there.any()
    seeds = [k for k, meta in enumerate(found.output_metas) if meta and meta.dtype == torch.uint64]
    assert seeds
    assert {found.layouts[i] for i in found.outputs[:, seeds].reshape(-1).tolist()} == {(R, R)}


def test_the_lists_of_a_graph_are_lists(mesh_of: Any) -> None:
    mesh, metas = mesh_of(2, 4), [meta_of((8, 8)), meta_of((8, 4))]
    in_graph = fx.immutable_collections.immutable_list(metas)
    assert same(
        shardprop.strategies(aten.cat.default, (in_graph, 1), mesh=mesh),
        shardprop.strategies(aten.cat.default, (metas, 1), mesh=mesh),
    )


def test_strategies_that_compute_the_same(mesh_of: Any) -> None:
    found = asked(mesh_of(2, 2))
    first, kind = found.by_local_shapes()
    shapes = np.concatenate(found.local_shapes()[0], axis=1)
    assert len(first) < len(found)
    np.testing.assert_array_equal(shapes[first][kind], shapes)
    assert len(np.unique(shapes[first], axis=0)) == len(first)


def test_a_spec_by_what_it_says(mesh_of: Any) -> None:
    mesh, tensor = mesh_of(2, 4), torch.empty(8, 4, dtype=torch.bfloat16, device="meta").t()
    spec = shardprop.make_spec(mesh, [S(0), R], tensor)
    assert spec == DTensorSpec(mesh, (S(0), R), tensor_meta=spec.tensor_meta)
    assert spec.tensor_meta == (tensor.shape, tensor.stride(), tensor.dtype)
    strided = shardprop.make_spec(mesh, [_StridedShard(0, split_factor=2), R], meta_of((8, 8)))
    assert strided.placements == (_StridedShard(0, split_factor=2), R)


@pytest.mark.parametrize(
    ("placements", "said"),
    [
        ([R], "make_spec.*2 placements.*got 1"),
        ([S(2), R], "make_spec.*2 tensor dims.*mesh dim 0"),
        (["R", R], "make_spec.*a placement on mesh dim 0"),
    ],
)
def test_a_spec_that_cannot_be(placements: Any, said: str, mesh_of: Any) -> None:
    with pytest.raises(ShardpropError, match=said):
        shardprop.make_spec(mesh_of(2, 4), placements, meta_of((8, 8)))


def test_no_tensor_at_all(mesh_of: Any) -> None:
    with pytest.raises(ShardpropError, match=r"make_spec.*Expected a tensor.*got 3"):
        shardprop.make_spec(mesh_of(2), [R], 3)  # type: ignore[arg-type]


def other_forms(mesh: Any) -> list[tuple[Any, str]]:
    spec = shardprop.make_spec(mesh, [R], meta_of((8, 8)))
    bare = DTensorSpec(mesh, (R,))
    one = OpSpec(spec, input_specs=(spec,))
    return [
        (None, "an OpStrategy with a strategy, got None"),
        (OpStrategy([]), "an OpStrategy with a strategy"),
        (OpStrategy([one, OpSpec(spec, input_specs=(spec, spec))]), "strategy 1.*1 operands.*2"),
        (OpStrategy([one, OpSpec((spec, spec), input_specs=(spec,))]), "strategy 1.*1 outputs.*2"),
        (OpStrategy([OpSpec(spec, input_specs=(bare,))]), "strategy 0, operand 0.*metadata"),
        (OpStrategy([OpSpec(spec, input_specs=(None,))]), "strategy 0, operand 0.*got None"),  # type: ignore[arg-type]
        (OpStrategy([OpSpec((None,), input_specs=())]), "strategy 0: Expected specs"),
    ]


@pytest.mark.parametrize("which", range(7))
def test_what_is_no_op_strategy_is_refused_by_place(which: int, mesh_of: Any) -> None:
    strategy, said = other_forms(mesh_of(4))[which]
    with pytest.raises(ShardpropError, match=f"aten.relu.default.*{said}"):
        shardprop.from_op_strategy(aten.relu.default, strategy)


def test_two_meshes_are_refused(mesh_of: Any) -> None:
    specs = [
        shardprop.make_spec(mesh_of(*m), [R] * len(m), meta_of((8, 8))) for m in [(4,), (2, 2)]
    ]
    with pytest.raises(ShardpropError, match="strategy 0, operand 0: Expected a spec on the mesh"):
        shardprop.from_op_strategy(
            aten.relu.default, OpStrategy([OpSpec(specs[0], input_specs=(specs[1],))])
        )


def test_an_op_strategy_of_several_outputs_is_no_tensor(mesh_of: Any) -> None:
    halves = shardprop.strategies(SPLIT, (meta_of((8, 8)), 4), mesh=mesh_of(4))
    with pytest.raises(ShardpropError, match="args\\[0\\]"):
        shardprop.strategies(
            aten.relu.default, (shardprop.to_op_strategy(halves),), mesh=mesh_of(4)
        )


@pytest.mark.parametrize(
    ("number", "said"),
    [(None, "number None"), (2, "from 0 to 1.*number 2"), (-1, "number -1"), (True, "number True")],
)
def test_which_of_several_outputs_has_to_be_said(number: Any, said: str, mesh_of: Any) -> None:
    mesh = mesh_of(4)
    whole = shardprop.to_op_strategy(shardprop.strategies(SPLIT, (meta_of((8, 8)), 4), mesh=mesh))
    source = whole if number is None else (whole, number)
    with pytest.raises(ShardpropError, match=rf"sources\[0\].*{said}"):
        shardprop.strategies(aten.relu.default, (meta_of((4, 8)),), mesh=mesh, sources=[source])


def test_a_strategy_of_other_tensors_than_the_first_is_refused(mesh_of: Any) -> None:
    one, other = (shardprop.make_spec(mesh_of(4), [R], meta_of((n, 8))) for n in (8, 16))
    both = OpStrategy([OpSpec(each, input_specs=(each,)) for each in (one, other)])
    with pytest.raises(
        ShardpropError, match=r"strategy 1, output 0: Expected .*\[8, 8\].*\[16, 8\]"
    ):
        shardprop.from_op_strategy(aten.relu.default, both)


def test_another_shard_order_is_refused(mesh_of: Any) -> None:
    order = (ShardOrderEntry(tensor_dim=0, mesh_dims=(1, 0)),)
    spec = shardprop.make_spec(mesh_of(2, 4), [S(0), S(0)], meta_of((8, 8)))
    reversed_ = DTensorSpec(spec.mesh, spec.placements, spec.tensor_meta, shard_order=order)
    with pytest.raises(ShardpropError, match=r"strategy 0, output 0.*default shard order"):
        shardprop.from_op_strategy(
            aten.relu.default, OpStrategy([OpSpec(reversed_, input_specs=(spec,))])
        )
