"""What a question knows of its operands."""

from __future__ import annotations

from collections.abc import Callable

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec

from shardprop.model.question import strided_flag

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
