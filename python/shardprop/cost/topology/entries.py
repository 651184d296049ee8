"""Which entries of a topology apply to a mesh that is a root mesh, or is made of one.

Entries name the dims of the mesh that was measured. A program has that mesh, meshes cut from it
(``mesh["tp"]``) and meshes flattened in it (``mesh["dp", "tp"]._flatten()``): it is the root of all
of them. So an entry is looked up by the dims of the root mesh.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ... import _torch
from ..._torch import DeviceMesh
from ...errors import ShardpropError
from .groups import MeshDims

__all__ = ["Lineage", "entries_on"]


class Lineage:
    """How the dims of a mesh come from those of its root.

    Attributes:
        mesh: The mesh.
        root: What it was cut from or flattened in; itself if it was made as it is.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        self.mesh = mesh
        self.root = _torch.root_mesh(mesh)
        self._root_dims = _torch.root_dims(mesh)

    def root_dims(self, dims: MeshDims) -> MeshDims | None:
        """The ascending dims of the root that some dims of the mesh are made of, without those of
        size 1; None where that cannot be told."""
        found: set[int] = set()
        for dim in dims:
            of_root = self._root_dims[dim]
            if of_root is None:
                return None
            found.update(of_root)
        return tuple(sorted(dim for dim in found if self.root.size(dim) > 1))

    def mesh_dims(self, root_dims: MeshDims) -> MeshDims | None:
        """The dims of the mesh that are made of just these dims of the root; None if there are
        none."""
        wanted = set(root_dims)
        dims = tuple(
            dim
            for dim, of_root in enumerate(self._root_dims)
            if of_root is not None and self.mesh.size(dim) > 1 and wanted.issuperset(of_root)
        )
        return dims if dims and self.root_dims(dims) == root_dims else None

    def named(self, mesh_dim: int | str) -> MeshDims | None:
        """The dims of the root that an entry means: by index, by a name of the root's, or by that
        of a flattened mesh; None where neither the mesh nor its root has it."""
        if isinstance(mesh_dim, int):
            return (mesh_dim,) if 0 <= mesh_dim < self.root.ndim else None
        return _torch.named_root_dims(self.root, mesh_dim)


def entries_on(
    lineage: Lineage,
    named: Sequence[Sequence[int | str]],
    wanted: Sequence[MeshDims],
    where: str,
) -> dict[MeshDims, int]:
    """The numbers of the entries by ascending dims of the root mesh.

    Those with a mesh dim of size 1 are left out. Those for parts of the root that the mesh does not
    have are there: what is not known of a flattened mesh is derived from its parts.

    Args:
        lineage: Of the mesh.
        named: The mesh dims of each entry.
        wanted: The groups of the mesh.
        where: The document, for messages.

    Raises:
        ShardpropError: a mesh dim that neither the mesh nor its root has, or twice; two entries for
            one group; an entry for dims that the mesh has, and no process group.
    """
    number_of: dict[MeshDims, int] = {}
    for number, mesh_dims in enumerate(named):
        path = f"{where}$.groups[{number}].mesh_dims"
        dims = _resolved(lineage, mesh_dims, path)
        if any(lineage.root.size(dim) == 1 for dim in dims):
            continue
        if dims in number_of:
            raise ShardpropError(
                f"{path}: Expected a group that no other entry has, got {json.dumps(mesh_dims)}, "
                f"which $.groups[{number_of[dims]}] has."
            )
        on_mesh = lineage.mesh_dims(dims)
        if on_mesh is not None and on_mesh not in wanted:
            raise ShardpropError(
                f"{path}: Expected a group that the mesh has a process group for, got "
                f"{json.dumps(mesh_dims)}; flatten these mesh dims or leave the entry out."
            )
        number_of[dims] = number
    return number_of


def _resolved(lineage: Lineage, mesh_dims: Sequence[int | str], path: str) -> MeshDims:
    """The ascending dims of the root mesh that an entry is for."""
    dims: list[int] = []
    for number, mesh_dim in enumerate(mesh_dims):
        found = lineage.named(mesh_dim)
        if found is None:
            names = lineage.root.mesh_dim_names or ()
            known = f" or one of {', '.join(map(repr, names))}" if names else ""
            raise ShardpropError(
                f"{path}[{number}]: Expected a mesh dim from 0 to {lineage.root.ndim - 1}{known}, "
                f"got {mesh_dim!r}."
            )
        dims.extend(found)
    if len(set(dims)) < len(dims):
        raise ShardpropError(f"{path}: Expected each mesh dim once, got {json.dumps(mesh_dims)}.")
    return tuple(sorted(dims))
