"""How strategies are asked for: forms of tensors and sources, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry
from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy
from torch.distributed.tensor.placement_types import _StridedShard

import shardprop
from shardprop import ShardingPlaceholder, ShardpropError, _torch

from .oracle import meta_of

aten = torch.ops.aten
R, P, S = Replicate(), Partial(), Shard
RELU = aten.relu.default


def test_every_plain_layout_is_a_source_where_nothing_is_said(mesh_of: Any) -> None:
    found = shardprop.strategies(RELU, (meta_of((8, 8)),), mesh=mesh_of(2, 4))
    plain = [*itertools.product([R, S(0), S(1)], repeat=2)]
    assert [found.layouts[i] for i in found.sources[0]] == plain


def test_a_list_op_has_the_strategies_of_its_first_element_and_of_each(mesh_of: Any) -> None:
    shapes = (8, 8), (4, 8, 2), (8, 8)
    args = ([meta_of(shape) for shape in shapes],)
    found = shardprop.strategies(aten._foreach_abs.default, args, mesh=mesh_of(2, 4))
    alone = [
        shardprop.strategies(aten.abs.default, (meta_of(s),), mesh=mesh_of(2, 4)) for s in shapes
    ]
    assert [len(each) for each in found.elements] == [len(each) for each in alone]
    assert len(found) == len(alone[0]) != len(alone[1])
    assert found.operand_metas == alone[0].operand_metas


def test_a_list_of_numbers_goes_with_the_tensors(mesh_of: Any) -> None:
    metas = [meta_of(shape) for shape in ((8, 8), (4, 8, 2))]
    add, mesh = aten._foreach_add, mesh_of(2, 4)
    one_each = shardprop.strategies(add.ScalarList, (metas, [1.0, 2.0]), mesh=mesh)
    one_for_all = shardprop.strategies(add.Scalar, (metas, 1.0), mesh=mesh)
    alone = [{*shardprop.strategies(aten.add.Tensor, (meta, 1.0), mesh=mesh)} for meta in metas]
    assert [{*each} for each in one_each.elements] == alone
    assert [{*each} for each in one_for_all.elements] == alone


def test_forms_of_tensors(mesh_of: Any) -> None:
    mesh, meta = mesh_of(2, 4), meta_of((8, 8))
    with FakeTensorMode():
        fake = torch.empty(8, 8)
    expected = shardprop.strategies(RELU, (meta,), mesh=mesh)
    for tensor in (torch.empty(8, 8), torch.empty(8, 8, device="meta"), fake):
        found = shardprop.strategies(RELU, [tensor], mesh=mesh)
        assert [*found] == [*expected] and found.operand_metas == (meta,)


def test_spec_and_dtensor_come_in_their_own_layout(mesh_of: Any) -> None:
    mesh, meta = mesh_of(2, 4), meta_of((8, 8))
    spec = DTensorSpec(mesh, (S(0), P), tensor_meta=meta)
    tensor = DTensor.from_local(torch.empty(4, 8), mesh, (S(0), P), run_check=False)
    for given in (spec, tensor):
        found = shardprop.strategies(RELU, (given,), mesh=mesh)
        assert [found.layouts[i] for i in found.sources[0]] == [(S(0), P)]


def test_forms_of_sources(mesh_of: Any) -> None:
    mesh, meta = mesh_of(2, 4), meta_of((8, 8))
    spec = DTensorSpec(mesh, (S(0), R), tensor_meta=meta)
    sources = [[(S(0), R), [R, R]], None]
    found = shardprop.strategies(aten.add.Tensor, (meta, spec), mesh=mesh, sources=sources)
    assert [[found.layouts[i] for i in each] for each in found.sources] == [
        [(S(0), R), (R, R)],
        [(S(0), R)],
    ]
    again = shardprop.strategies(RELU, (meta,), mesh=mesh, sources=[[spec]])
    assert again.sources[0].tolist() == [again.layouts.id((S(0), R))]


def test_lists_and_keywords_are_operands(mesh_of: Any) -> None:
    mesh, meta = mesh_of(4), meta_of((8, 8))
    found = shardprop.strategies(aten.stack.default, ([meta, meta], 0), mesh=mesh)
    assert found.operands.shape[1] == 2 and found.output_metas[0].shape == (2, 8, 8)  # type: ignore[union-attr]
    found = shardprop.strategies(aten.add.out, (meta, meta), {"out": meta}, mesh=mesh)
    assert found.operands.shape[1] == 3


def test_tables_are_shared(mesh_of: Any) -> None:
    mesh, table = mesh_of(2, 4), shardprop.LayoutTable()
    args = (meta_of((16, 32)), meta_of((32, 8)))
    first = shardprop.strategies(aten.mm.default, args, mesh=mesh, layouts=table)
    second = shardprop.strategies(RELU, (meta_of((16, 8)),), mesh=mesh, layouts=table)
    assert first.layouts is table and second.layouts is table
    common = {*first.outputs[:, 0].tolist()} & {*second.operands[:, 0].tolist()}
    assert table.id((S(0), R)) in common
    assert len({table[i] for i in range(len(table))}) == len(table)


def test_arrays(mesh_of: Any) -> None:
    args = (meta_of((16, 32)), meta_of((32, 8)))
    found = shardprop.strategies(aten.mm.default, args, mesh=mesh_of(2, 4))
    assert found.outputs.dtype == found.operands.dtype == np.int32
    assert found.outputs.shape == (len(found), 1) and found.operands.shape == (len(found), 2)
    assert found.op is aten.mm.default and found.operand_metas == args
    assert repr(found) == f"Strategies(aten.mm.default: {len(found)} on a mesh of (2, 4))"
    assert found[-1] == [*found][-1]
    with pytest.raises(IndexError):
        found[len(found)]


def test_several_operands_that_are_followed(mesh_of: Any) -> None:
    """Beyond 4096 combinations each source is asked of all operands alike."""
    mesh, meta = mesh_of(2, 4), meta_of((8, 8))
    found = shardprop.strategies(aten.cat.default, ([meta] * 5, 0), mesh=mesh)
    layouts = [*itertools.product([R, S(1)], repeat=2)]
    if shardprop._torch.IS_215_OR_LATER:
        assert {each.operands for each in found} >= {(layout,) * 5 for layout in layouts}
    else:
        assert {each.operands for each in found} == {(layout,) * 5 for layout in layouts}


M = meta_of((8, 8))
BAD: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "no op": (aten.relu, (M,), {}, "op: Expected an op overload"),
    "no arguments": (RELU, M, {}, "args: Expected a list or tuple"),
    "no tensor": (RELU, (1,), {}, "Expected a tensor among the arguments"),
    "no mesh": (RELU, (M,), {"mesh": None}, "mesh: Expected a DeviceMesh"),
    "keywords": (RELU, (M,), {"kwargs": [1]}, "kwargs: Expected a dict"),
    "lists": (aten._foreach_add.List, ([M], [M, M]), {}, "Expected lists of one length, got"),
    "no list of tensors": (aten._foreach_add.List, (M, M), {}, "self: Expected a list of tensors"),
    "reads out": (aten._local_scalar_dense.default, (meta_of(()),), {}, "an op that is decided"),
    "no rule": (aten.nonzero.default, (M,), {}, "aten.nonzero.default: Expected"),
    "misfit": (
        aten.mm.default,
        (M, meta_of((3, 3))),
        {},
        "aten.mm.default: Expected operands that",
    ),
    "too few": (RELU, (M,), {"sources": []}, "sources: Expected layouts .or None. for each of 1"),
    "too many": (
        RELU,
        (M,),
        {"sources": [None, None]},
        "sources: .* each of 1 operands, got 2",
    ),
    "no list": (RELU, (M,), {"sources": S(0)}, "sources: Expected layouts .* got Shard"),
    "one layout": (RELU, (M,), {"sources": [(S(0), R)]}, r"sources\[0\]: Expected a sequence of"),
    "none": (RELU, (M,), {"sources": [[]]}, r"sources\[0\]: Expected a layout at least"),
    "short": (RELU, (M,), {"sources": [[(R, R), (R,)]]}, r"sources\[0\]\[1\]: Expected 2 placem"),
    "not placed": (
        RELU,
        (M,),
        {"sources": [[(R, 0)]]},
        "Expected a placement on mesh dim 1, got 0",
    ),
    "no such dim": (RELU, (M,), {"sources": [[(R, S(2))]]}, "Expected shards of the operand's 2"),
    "below": (RELU, (M,), {"sources": [[(S(-1), R)]]}, "Expected shards of the operand's 2"),
    "mixed": (RELU, (M,), {"sources": [[(P, Partial("max"))]]}, "Expected partials of one kind"),
    "text": (RELU, (M,), {"sources": [["RS"]]}, r"sources\[0\]\[0\]: Expected placements or"),
    "table": (RELU, (M,), {"layouts": {}}, "layouts: Expected a LayoutTable"),
    "topology": (RELU, (M,), {"prices": "nowhere"}, "nowhere"),
    "price": (RELU, (M,), {"prices": 3.0}, "Expected"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name: str, mesh_of: Any) -> None:
    op, args, settings, message = BAD[name]
    with pytest.raises(ShardpropError, match=message):
        shardprop.strategies(op, args, **{"mesh": mesh_of(2, 4), **settings})


def test_specs_on_another_mesh_or_with_an_order_are_refused(mesh_of: Any) -> None:
    mesh, other = mesh_of(2, 4), mesh_of(4, 2)
    spec = DTensorSpec(other, (R, R), tensor_meta=M)
    with pytest.raises(ShardpropError, match=r"args\[0\]: Expected a tensor on the mesh"):
        shardprop.strategies(RELU, (spec,), mesh=mesh)
    with pytest.raises(ShardpropError, match=r"sources\[0\]\[0\]: Expected a spec on the mesh"):
        shardprop.strategies(RELU, (M,), mesh=mesh, sources=[[spec]])
    order = (ShardOrderEntry(0, (1, 0)),)
    ordered = DTensorSpec(mesh, (S(0), S(0)), tensor_meta=M, shard_order=order)
    with pytest.raises(ShardpropError, match="Expected the default shard order"):
        shardprop.strategies(RELU, (ordered,), mesh=mesh)
    with pytest.raises(ShardpropError, match=r"args\[0\]: Expected a spec with tensor metadata"):
        shardprop.strategies(RELU, (DTensorSpec(mesh, (R, R)),), mesh=mesh)


def test_too_many_plain_layouts(mesh_of: Any) -> None:
    with pytest.raises(ShardpropError, match="there are 6561 plain ones"):
        shardprop.strategies(RELU, (meta_of((2,) * 8),), mesh=mesh_of(2, 2, 2, 2))


def test_table_refuses_what_is_no_placement() -> None:
    table = shardprop.LayoutTable()
    with pytest.raises(
        ShardpropError, match="Expected a layout of placements, got 'R' on mesh dim 0"
    ):
        table.id("R")  # type: ignore[arg-type]
    assert len(table) == 0
    assert table.id([_StridedShard(0, split_factor=2)]) == table.id(
        (_StridedShard(0, split_factor=2),)
    )


def test_what_is_written_and_not_returned_needs_no_output(mesh_of: Any) -> None:
    """The output of such an op goes by no argument that is not given."""
    meta, mesh = meta_of((8, 6)), mesh_of(4)
    with torch.library._scoped_library("shardprop_forms", "DEF") as library:
        library.define("mark(Tensor x, *, Tensor(a!)? seen=None) -> Tensor")
        library.define("note(Tensor x, *, Tensor(a!) seen) -> ()")
        library.impl("mark", lambda x, seen=None: x + 1, "CompositeExplicitAutograd")
        library.impl("note", lambda x, seen: None, "CompositeExplicitAutograd")
        mark, note = (getattr(torch.ops.shardprop_forms, name).default for name in ("mark", "note"))
        with shardprop.temporary_rules():
            shardprop.register_single_dim_rule([mark, note])(
                lambda op, args, kwargs: [[ShardingPlaceholder(0)] * 2]
            )
            marked = shardprop.strategies(mark, (meta,), mesh=mesh)
            noted = shardprop.strategies(note, (meta,), {"seen": meta}, mesh=mesh)
    assert {*marked} == {((layout,), (layout,)) for layout in ((R,), (S(0),))}
    assert {*noted} == {((), (layout, layout)) for layout in ((R,), (S(0),))}


def test_an_output_that_a_call_leaves_out_has_no_layout(mesh_of: Any) -> None:
    tensors = [meta_of(shape) for shape in ((8, 4, 16, 16), (8, 3, 16, 16), (4, 3, 3, 3))]
    rest = [[4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, True]]
    found = shardprop.strategies(
        aten.convolution_backward.default, (*tensors, *rest), mesh=mesh_of(2, 2)
    )
    assert len(found) > 1
    assert (found.outputs[:, 0] == -1).all()
    assert (found.outputs[:, 1:] >= 0).all()
    assert found.output_metas[0] is None


def test_an_output_that_only_some_rows_name_has_no_layout_in_the_others(mesh_of: Any) -> None:
    with torch.library._scoped_library("shardprop_forms", "DEF") as library:
        library.define("halves(Tensor x) -> (Tensor, Tensor)")
        library.impl("halves", lambda x: (x + 1, x + 2), "CompositeExplicitAutograd")
        op = torch.ops.shardprop_forms.halves.default
        rows: list[list[Any]] = [[S(0), None, S(0)], [S(1), S(1), S(1)]]
        register_single_dim_strategy(op)(lambda *_: rows)
        found = {*shardprop.strategies(op, (meta_of((8, 6)),), mesh=mesh_of(2))}
        DTensor._op_dispatcher.sharding_propagator.op_single_dim_strategy_funcs.pop(op)
    cut = {each.operands[0]: each.outputs for each in found if each.operands[0] != (R,)}
    assert cut == {(S(0),): ((S(0),), None), (S(1),): ((S(1),), (S(1),))}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([None, S(0)], "rule whose only output is absent"),
        ([S(0), None], "row 0"),
        ([S(0), S(2)], "row 0"),
    ],
    ids=["unsupported", "absent operand", "no such dim"],
)
def test_rows_of_a_torch_rule_that_cannot_be_meant_are_refused(
    mesh_of: Any, row: list[Any], message: str
) -> None:
    with torch.library._scoped_library("shardprop_forms", "DEF") as library:
        library.define("same(Tensor x) -> Tensor")
        library.impl("same", lambda x: x + 1, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_forms.same.default
        register_single_dim_strategy(op)(lambda *_: [row])
        try:
            with pytest.raises(
                ShardpropError, match=rf"shardprop_forms\.same\.default: .*{message}"
            ):
                shardprop.strategies(op, (meta_of((8, 6)),), mesh=mesh_of(2))
        finally:
            _torch.propagator().op_single_dim_strategy_funcs.pop(op)


def test_each_element_of_a_list_has_its_own_sources(mesh_of: Any) -> None:
    metas = [meta_of((8, 8)), meta_of((8, 8))]
    found = shardprop.strategies(
        aten._foreach_mul.Tensor,
        (metas, meta_of(())),
        mesh=mesh_of(4),
        sources=[[(S(0),), (R,)], [(S(1),)], [(P,)]],
    )
    assert [
        [[each.layouts[number] for number in numbers] for numbers in each.sources]
        for each in found.elements
    ] == [[[(S(0),), (R,)], [(P,)]], [[(S(1),)], [(P,)]]]
