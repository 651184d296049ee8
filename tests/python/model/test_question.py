"""What a question knows of its operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo

from shardprop.model.op_traits import traits_of
from shardprop.model.question import question_of, strided_flag, written_cells
from shardprop.rules import torch_registry

from ..specs import SS, R, S, spec_of

aten = torch.ops.aten
MeshOf = Callable[..., DeviceMesh]


def test_the_first_operand_with_strided_shards_says_what_they_stand_for(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)

    def operand(first: Placement, *, is_order: bool) -> DTensorSpec:
        return spec_of(mesh, (8, 8), (first, R), strided_is_order=is_order)

    plain, view, order = (
        operand(S(0), is_order=True),
        operand(SS(0, 2), is_order=False),
        operand(SS(0, 2), is_order=True),
    )
    assert strided_flag([plain, view, order]) is False
    assert strided_flag([plain, order, view]) is True
    assert strided_flag([plain]) is None


def test_operands_in_a_list_among_the_keyword_arguments_count_where_torch_looks_for_them(
    mesh_of: MeshOf,
) -> None:
    first, second, third = (spec_of(mesh_of(2), (8, size), (S(0),)) for size in (1, 2, 3))
    schema = torch_registry.op_schema(
        torch.ops.aten.add.Tensor, (first, first), {"rest": [second, third], "alpha": 2}
    )
    for needs_pytree, operands in (
        (True, [first, first, second, third]),
        (False, [first, first]),
    ):
        schema.schema_info = RuntimeSchemaInfo(needs_pytree=needs_pytree)
        assert question_of(schema, None).operands == operands


@pytest.mark.parametrize(
    ("op", "args", "out", "cells"),
    [
        (aten.add.Tensor, ((8,), (8,)), None, []),
        (aten.add_.Tensor, ((8,), (8,)), None, [(1, 0), (0, 0)]),
        (aten.add.out, ((8,), (8,)), (8,), [(3, 2), (0, 2)]),
        # Running mean and variance are returned as nothing.
        (aten.native_batch_norm.default, ((4, 8), *[(8,)] * 4), None, [(6, 3), (7, 4)]),
    ],
    ids=str,
)
def test_what_is_written_into_has_its_own_cell_and_that_of_its_output(
    mesh_of: MeshOf, op: Any, args: Any, out: Any, cells: list[tuple[int, int]]
) -> None:
    operands = tuple(spec_of(mesh_of(2), shape, (R,)) for shape in args)
    kwargs = {} if out is None else {"out": spec_of(mesh_of(2), out, (R,))}
    rest = (True, 0.1, 1e-5) if op is aten.native_batch_norm.default else ()
    question = question_of(torch_registry.op_schema(op, (*operands, *rest), kwargs), None)
    assert written_cells(question, traits_of(op).returns) == cells
