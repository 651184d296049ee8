"""The core's view of a mesh."""

from __future__ import annotations

import weakref

from .. import _core, _torch
from .._torch import DeviceMesh

__all__ = ["core_mesh"]

_meshes: dict[int, tuple[weakref.ref[DeviceMesh], _core.Mesh]] = {}


def core_mesh(mesh: DeviceMesh) -> _core.Mesh:
    """The core's view of a mesh, made once per mesh object.

    Raises:
        _core.Unsupported: the mesh has no dims, more than 8, or one of size 0.
    """
    local = _torch.in_local_tensor_mode()
    known = _meshes.get(id(mesh))
    if known is not None and known[0]() is mesh and not local:
        return known[1]
    topology = _torch.mesh_topology(mesh)
    core = _core.Mesh(
        topology.mesh_dim_devices,
        topology.mesh_dim_bandwidth,
        topology.mesh_dim_latency,
        # In LocalTensorMode one for each rank; prices do not depend on it.
        _torch.coordinate_in(mesh),
    )
    if not local:
        key = id(mesh)
        _meshes[key] = (weakref.ref(mesh, lambda _: _meshes.pop(key, None)), core)
    return core
