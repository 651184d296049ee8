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

from ...specs import P, R, S, meta_of
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


def test_a_call_that_a_correction_concerns_is_decided_as_a_whole() -> None:
    """The rows of torch 2.15 let a pending sum of bools through a sum, which counts them."""

    def function(x: torch.Tensor) -> Any:
        return torch.sum(x, [1])

    for dtype, outputs in ((torch.bool, None), (torch.int64, (DimLayout(P, None),))):
        program = program_of(function, meta_of((8, 8), dtype))
        decisions = NestedDecisions(
            program,
            one_rank(),
            lambda schema, meta: decomposer.decide(schema, meta, current_policy()),
            lambda schema: None,
            factories=False,
            in_order=False,
        )
        assert decisions.outputs(0, (DimLayout(P, None),)) == outputs
        assert (decisions.correction is None) is (outputs is not None)
