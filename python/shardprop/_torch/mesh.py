"""Device meshes: where this rank is in one, and which mesh one was cut from."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed._local_tensor import _map_to_rank_local_val, enabled_local_tensor_mode
from torch.distributed.distributed_c10d import GroupMember
from torch.distributed.tensor import _utils

from .flattened import found_by_layout
from .types import DeviceMesh, OpOverload, OpSchema
from .version import args_with_mesh


def coordinate_in(mesh: DeviceMesh) -> Sequence[int] | None:
    """Where this rank is in a mesh; None if it is not. In LocalTensorMode it is everywhere."""
    if not mesh._is_current_rank_part_of_mesh():
        return None
    everywhere = enabled_local_tensor_mode() is not None
    return [0] * mesh.ndim if everywhere else list(mesh.get_coordinate())  # type: ignore[arg-type]


def mesh_itself(mesh: Any) -> DeviceMesh:
    """The mesh of a tensor; while torch's compiler follows a program, what stands for it may be
    there."""
    itself: DeviceMesh = getattr(mesh, "real_obj", mesh)
    return itself


def world() -> object:
    """The default group: another one when torch.distributed has begun anew."""
    return GroupMember.WORLD


def coordinates_of_ranks(mesh: DeviceMesh) -> dict[int, list[int]] | None:
    """Where each rank that this process stands for is in a mesh; None outside LocalTensorMode."""
    mode = enabled_local_tensor_mode()
    if mode is None:
        return None
    coordinates: Sequence[Any] = mesh.get_coordinate()  # type: ignore[assignment]
    return {
        rank: [_map_to_rank_local_val(coordinate, rank) for coordinate in coordinates]
        for rank in sorted(mode.ranks)
    }


def mesh_of(schema: OpSchema) -> DeviceMesh:
    """The mesh that computes; as torch finds it.

    Raises:
        ValueError: no operand has one.
    """
    return _utils.try_find_mesh_from_args(schema.op, args_with_mesh(schema))


def real_mesh(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DeviceMesh:
    """The mesh of a decomposed op; every torch looks among its keyword arguments too.

    Raises:
        ValueError: no operand has one.
    """
    return _utils.try_find_mesh_from_args(op, (*args, *kwargs.values()))


def coordinate_on(mesh: DeviceMesh, mesh_dim: int) -> int:
    """This rank's place on a mesh dim; in LocalTensorMode an int that each rank has its own of."""
    return mesh._sym_get_coordinate(mesh_dim)  # type: ignore[return-value]


def root_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """The mesh that a mesh was cut from or flattened in; itself if it was made as it is."""
    return mesh._get_root_mesh()


def root_dims(mesh: DeviceMesh) -> tuple[tuple[int, ...] | None, ...]:
    """For each mesh dim the ascending dims of the root mesh that it is made of: one, or those that
    were flattened into it, without those of size 1 among them. None where that cannot be told."""
    root = root_mesh(mesh)
    if root is mesh:
        return tuple((mesh_dim,) for mesh_dim in range(mesh.ndim))
    if mesh.mesh_dim_names is None:
        return (None,) * mesh.ndim
    return tuple(named_root_dims(root, name) for name in mesh.mesh_dim_names)


def named_root_dims(root: DeviceMesh, name: str) -> tuple[int, ...] | None:
    """The ascending dims of a root mesh that a name stands for: its own, or a flattened mesh's."""
    names = root.mesh_dim_names or ()
    if name in names:
        return (names.index(name),)
    flat = root._flatten_mapping.get(name)
    if flat is None:
        return None
    active = [mesh_dim for mesh_dim in range(root.ndim) if root.size(mesh_dim) > 1]
    for count in range(1, len(active) + 1):
        for mesh_dims in itertools.combinations(active, count):
            found = found_by_layout(root, mesh_dims)
            if found is not None and found._layout == flat._layout:
                return mesh_dims
    return None


def has_groups(mesh: DeviceMesh) -> bool:
    """Has it process groups?"""
    return hasattr(mesh, "_dim_group_names")


def mesh_without_groups(ranks: torch.Tensor) -> DeviceMesh:
    """A mesh for decisions alone, of which this process is rank 0: it opens no process groups."""
    return DeviceMesh("cpu", ranks, _init_backend=False, _rank=0)


class _FromFirstRank(DeviceMesh):
    """Equal to no other mesh, that nothing which is kept by mesh is found by the wrong one."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def from_first_rank(mesh: DeviceMesh) -> DeviceMesh:
    """A mesh as the first of its ranks has it, which holds at least as much as any other: for what
    is to be found alike on each of them. Its groups are those of this rank."""
    return _from_first_rank(mesh, {})


def _from_first_rank(mesh: DeviceMesh, known: dict[int, DeviceMesh]) -> DeviceMesh:
    seen = known.get(id(mesh))
    if seen is None:
        seen = known[id(mesh)] = _FromFirstRank.__new__(_FromFirstRank)
        seen.__dict__.update(mesh.__dict__)
        seen._coordinate_on_dim = (0,) * mesh.ndim
        root = mesh._root_mesh
        seen._root_mesh = None if root is None else _from_first_rank(root, known)
        flattened = mesh._flatten_mapping.items()
        seen._flatten_mapping = {name: _from_first_rank(each, known) for name, each in flattened}
    return seen
