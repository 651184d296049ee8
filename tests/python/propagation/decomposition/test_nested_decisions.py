"""Which calls inside a decomposition are decided by their rows alone, and which as a whole."""

from __future__ import annotations

from typing import Any

import torch

from shardprop._torch import OpSchema
from shardprop.model.question import OutputMeta
from shardprop.propagation.decomposition.by_rows import DimLayout
from shardprop.propagation.decomposition.nested_decisions import Inside, NestedDecisions
from shardprop.propagation.propagator import current_policy
from shardprop.propagation.route import decomposer

from ...specs import R, S, meta_of
from .traced import one_rank, program_of


def test_a_list_op_is_decided_as_a_whole_and_others_by_their_rows() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch._foreach_add([torch.mul(x, y)], [y])

    asked = []

    def decide(schema: OpSchema, meta: OutputMeta) -> Inside:
        asked.append(schema.op)
        return decomposer.decide(schema, meta, current_policy())

    square = meta_of((8, 8))
    program = program_of(function, square, square)
    decisions = NestedDecisions(
        program, one_rank(), decide, lambda schema: None, factories=False, in_order=False
    )
    product, listed = range(2)
    rows, whole = DimLayout(S(0), None), DimLayout(R, None)
    assert decisions.outputs(product, (rows, rows)) == (rows,)
    assert decisions.outputs(product, (rows, whole)) is None  # one of them would have to move
    assert asked == []
    assert decisions.outputs(listed, (rows, rows)) == (rows,)
    assert asked == [torch.ops.aten._foreach_add.List]
