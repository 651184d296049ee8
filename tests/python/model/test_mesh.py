"""The core's view of a mesh, made once for each."""

from __future__ import annotations

from collections.abc import Callable

from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh

from shardprop.model.mesh import core_mesh


def test_a_mesh_is_read_once_but_for_each_rank_that_this_process_stands_for(
    mesh_of: Callable[..., DeviceMesh],
) -> None:
    mesh = mesh_of(4)
    known = core_mesh(mesh)
    assert core_mesh(mesh) is known
    with LocalTensorMode(4):
        assert core_mesh(mesh) is not known
    assert core_mesh(mesh) is known
