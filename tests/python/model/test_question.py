"""What a question knows of its operands."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo

from shardprop.model.question import question_of, strided_flag
from shardprop.rules import torch_registry

from ..specs import SS, R, S, spec_of

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
