"""What holds of every rule that does not say otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement

import shardprop

from ..specs import R, S, spec_of


@pytest.mark.parametrize(("rows", "placed"), [(3, R), (4, S(0)), (5, S(0))], ids=str)
def test_no_rank_is_left_without_elements(
    mesh_of: Callable[..., DeviceMesh], rows: int, placed: Placement
) -> None:
    mesh = mesh_of(4)
    matrix, vector = spec_of(mesh, (rows, 8), [S(0)]), spec_of(mesh, (8,), [R])
    found = shardprop.propagate(torch.ops.aten.mv.default, matrix, vector)
    assert found.outputs == ((placed,),)
