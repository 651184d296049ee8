"""What the core is told of a question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSchema
from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy

import shardprop
from shardprop import _torch
from shardprop.metadata import output_meta
from shardprop.model.question import question_of
from shardprop.propagation.answer import output_placements
from shardprop.propagation.core_call import _candidate_specs, choose
from shardprop.rules import torch_registry
from shardprop.rules.row_rule import RowRule

from ..specs import R, S, meta_of, spec_of

aten = torch.ops.aten


def test_a_filter_sees_the_metadata_of_the_outputs_that_there_are(
    mesh_of: Callable[..., DeviceMesh],
) -> None:
    mesh = mesh_of(4)
    operand = spec_of(mesh, (8, 6), [S(0)])
    schema = torch_registry.op_schema(
        aten.native_layer_norm.default, (operand, [6], None, None, 1e-5), {}
    )
    outputs: tuple[Any, ...] = (meta_of((8, 6)), meta_of((8, 1)))
    question = question_of(schema, outputs)
    cut, whole = (S(0),), (R,)
    # The second of three is absent: the third has the second's metadata.
    specs = _candidate_specs(question, mesh, (cut, None, whole, cut), 3)
    assert [None if spec is None else (spec.placements, spec.tensor_meta) for spec in specs] == [
        (cut, outputs[0]),
        None,
        (whole, outputs[1]),
        (cut, operand.tensor_meta),
    ]


@pytest.mark.parametrize(
    ("op", "rest", "outputs", "seen_as"),
    [
        (aten.relu.default, (), 1, DTensorSpec),
        (aten.topk.default, (2, 1), 1, DTensorSpec),  # one for both, as its rows may say
        (aten.topk.default, (2, 1), 2, tuple),
        (aten.split.Tensor, (6, 1), 1, tuple),
        (aten.split.Tensor, (3, 1), 2, tuple),
    ],
    ids=str,
)
def test_a_filter_sees_the_outputs_as_rows_and_schema_have_them(
    mesh_of: Callable[..., DeviceMesh], op: Any, rest: tuple[Any, ...], outputs: int, seen_as: type
) -> None:
    operand = spec_of(mesh_of(4), (8, 6), [S(0)])
    schema = torch_registry.op_schema(op, (operand, *rest), {})
    seen: list[Any] = []

    def accepts(mesh: DeviceMesh, schema: OpSchema, operands: Any, outputs: Any) -> bool:
        seen.append(outputs)
        return True

    rule = RowRule(lambda *_: [[S(0)] * (outputs + 1)], outputs=outputs, accepts=accepts)
    choice = choose(question_of(schema, output_meta(schema)), rule)
    assert choice.outputs == ((S(0),),) * outputs
    assert {type(outputs) for outputs in seen} == {seen_as}
    assert {1 if seen_as is DTensorSpec else len(outputs) for outputs in seen} == {outputs}


def test_what_no_row_makes_is_in_the_replicated_row_as_torch_has_it(
    mesh_of: Callable[..., DeviceMesh],
) -> None:
    """torch 2.15 leaves such an output out of that row as well, torch 2.13 does not."""
    operand = spec_of(mesh_of(4), (8, 6), [R])
    with torch.library._scoped_library("shardprop_core_call", "DEF") as library:
        library.define("halves(Tensor x) -> (Tensor, Tensor)")
        library.impl("halves", lambda x: (x + 1, x + 2), "CompositeExplicitAutograd")
        op = torch.ops.shardprop_core_call.halves.default
        schema = torch_registry.op_schema(op, (operand,), {})
        propagator = _torch.propagator()
        register_single_dim_strategy(op)(lambda *_: [[S(dim), None, S(dim)] for dim in (0, 1)])
        try:
            by_torch = propagator.propagate_op_sharding_non_cached(schema)
            with shardprop.enabled(strict=True):
                by_core = propagator.propagate_op_sharding_non_cached(schema)
        finally:
            propagator.op_single_dim_strategy_funcs.pop(op)
    whole = ((R,), None if _torch.IS_215_OR_LATER else (R,))
    assert output_placements(by_core) == output_placements(by_torch) == whole
