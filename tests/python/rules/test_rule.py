"""What holds of every rule that does not say otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement

import shardprop
from shardprop.metadata import output_meta
from shardprop.propagation.propagator import current_policy
from shardprop.rules import torch_registry
from shardprop.rules.rule import DecompositionRule

from ..specs import P, R, S, spec_of


@pytest.mark.parametrize(("rows", "placed"), [(3, R), (4, S(0)), (5, S(0))], ids=str)
def test_no_rank_is_left_without_elements(
    mesh_of: Callable[..., DeviceMesh], rows: int, placed: Placement
) -> None:
    mesh = mesh_of(4)
    matrix, vector = spec_of(mesh, (rows, 8), [S(0)]), spec_of(mesh, (8,), [R])
    found = shardprop.propagate(torch.ops.aten.mv.default, matrix, vector)
    assert found.outputs == ((placed,),)


@pytest.mark.parametrize(
    ("left_out", "misplaces"),
    [
        (None, False),
        ([], False),
        ([[S(0), S(0)]], True),  # it costs nothing, and would be taken
        ([[S(1), S(1)]], False),  # it costs more than the one that is kept
        ([[S(2), S(2)]], True),  # a dim that the operand does not have: torch's code is asked
    ],
    ids=["none", "nothing", "taken", "dearer", "malformed"],
)
def test_rows_that_are_left_out_matter_where_they_would_be_chosen(
    mesh_of: Callable[..., DeviceMesh],
    left_out: Sequence[list[Placement]] | None,
    misplaces: bool,
) -> None:
    dearer = left_out == [[S(1), S(1)]]
    kept: list[list[Placement]] = [[P, S(0)], [R, R]] if dearer else [[R, R]]
    torch_rows = None if left_out is None else [*kept, *left_out]
    rule = DecompositionRule(kept, outputs=1, torch_rows=torch_rows)
    operand = spec_of(mesh_of(4), (8, 8), [S(0)])
    schema = torch_registry.op_schema(torch.ops.aten.relu.default, (operand,), {})
    question = rule.question(schema, output_meta(schema))
    with shardprop.enabled():
        assert rule.would_misplace(question, current_policy()) is misplaces


def test_rows_of_which_none_can_be_chosen_misplace_nothing(
    mesh_of: Callable[..., DeviceMesh],
) -> None:
    rule = DecompositionRule([[R, R]], outputs=1, torch_rows=[[S(0), S(0)]])
    operand = spec_of(mesh_of(4), (3, 8), [R])  # too few elements to shard
    schema = torch_registry.op_schema(torch.ops.aten.relu.default, (operand,), {})
    question = rule.question(schema, output_meta(schema))
    with shardprop.enabled():
        assert not rule.would_misplace(question, current_policy())
