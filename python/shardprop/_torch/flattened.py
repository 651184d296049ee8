"""Flattened meshes: several dims of a mesh as one, on which torch merges collectives."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping

from torch.distributed.tensor import _redistribute

from ..errors import ShardpropError
from .types import DeviceMesh


def flatten_mesh(mesh: DeviceMesh) -> None:
    """Have a mesh of all its dims as one, with which torch merges collectives."""
    mesh._flatten()


def flattened_mesh(mesh: DeviceMesh, mesh_dims: tuple[int, ...]) -> DeviceMesh | None:
    """The mesh with ascending `mesh_dims` as one that was made before; None if there is none.

    Without names of the dims there can be none.
    """
    name = _flattened_names(mesh).get(mesh_dims)
    return None if name is None else mesh._get_root_mesh()._flatten_mapping[name]


def flattened_meshes(mesh: DeviceMesh) -> Mapping[str, DeviceMesh]:
    """Every flattened mesh of the mesh's root by its name, as torch keeps them: one that is made
    later appears in it."""
    return mesh._get_root_mesh()._flatten_mapping


def flattened_groups(mesh: DeviceMesh) -> tuple[tuple[int, ...], ...]:
    """Ascending sets of two or more mesh dims of size over 1 that there is a flattened mesh of."""
    return tuple(_flattened_names(mesh))


def groups_to_flatten(mesh: DeviceMesh) -> list[tuple[int, ...]]:
    """Ascending sets of two or more mesh dims of size over 1 that have no flattened mesh yet."""
    made = set(flattened_groups(mesh))
    active = [mesh_dim for mesh_dim in range(mesh.ndim) if mesh.size(mesh_dim) > 1]
    sets = (itertools.combinations(active, count) for count in range(2, len(active) + 1))
    return [mesh_dims for mesh_dims in itertools.chain(*sets) if mesh_dims not in made]


def flatten_dims(mesh: DeviceMesh, mesh_dims: tuple[int, ...]) -> DeviceMesh:
    """The mesh with ascending `mesh_dims`, all of size over 1, as one; made if there is none.

    To make one opens process groups, which is collective: every rank of the root mesh must do so.

    Raises:
        ShardpropError: the dims have no names, without which torch makes none.
    """
    names = mesh.mesh_dim_names
    if names is None:
        raise ShardpropError(
            f"Expected a mesh whose dims have names, to flatten its dims {mesh_dims}: torch "
            "flattens no other. Give mesh_dim_names to init_device_mesh."
        )
    found = flattened_mesh(mesh, mesh_dims)
    if found is not None:
        return found
    chosen = tuple(names[mesh_dim] for mesh_dim in mesh_dims)
    return _flatten_under_a_free_name(mesh[chosen], "_".join(chosen))


def _flatten_under_a_free_name(part: DeviceMesh, name: str) -> DeviceMesh:
    """`part` flattened under `name`, as torch would call it, or with the first number that makes
    it a name which no dim and no other group has."""
    root = part._get_root_mesh()
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    free = (n for n in itertools.chain([name], numbered) if n not in (root.mesh_dim_names or ()))
    for each in free:
        try:
            return part._flatten(each)
        except ValueError:
            # torch's, before it opens anything, where another group has the name.
            if each not in root._flatten_mapping:
                raise
    raise AssertionError("numbers do not end")


# Per mesh: how many flattened meshes its root had, of which none is ever taken away, and the names
# of those of its dims. By identity, as a mesh may equal one of another root; by name, as a
# flattened mesh would keep its root alive.
_FlattenedNames = dict[tuple[int, ...], str]
_flattened: dict[int, tuple[weakref.ref[DeviceMesh], int, _FlattenedNames]] = {}


def _flattened_names(mesh: DeviceMesh) -> _FlattenedNames:
    made = len(mesh._get_root_mesh()._flatten_mapping)
    key = id(mesh)
    known = _flattened.get(key)
    if known is not None and known[1] == made and known[0]() is mesh:
        return known[2]
    names = dict(_find_flattened(mesh)) if made else {}
    _flattened[key] = (weakref.ref(mesh, lambda _: _flattened.pop(key, None)), made, names)
    return names


def _find_flattened(mesh: DeviceMesh) -> Iterator[tuple[tuple[int, ...], str]]:
    """The flattened meshes that torch's layout query finds, with their names in the root."""
    of_root = mesh._get_root_mesh()._flatten_mapping
    active = [mesh_dim for mesh_dim in range(mesh.ndim) if mesh.size(mesh_dim) > 1]
    for count in range(2, len(active) + 1):
        for mesh_dims in itertools.combinations(active, count):
            found = found_by_layout(mesh, mesh_dims)
            if found is not None:
                yield mesh_dims, next(name for name, held in of_root.items() if held is found)


def found_by_layout(mesh: DeviceMesh, mesh_dims: tuple[int, ...]) -> DeviceMesh | None:
    """What torch's layout query finds."""
    try:
        return _redistribute._get_flattened_mesh_by_layout_impl(mesh, mesh_dims)
    except KeyError:
        # It takes only dims that come in the order of their strides.
        return None
