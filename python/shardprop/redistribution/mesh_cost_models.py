"""The core's cost models of meshes under one topology, as the flattened groups come and go."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable

from .. import _core, _torch
from .._torch import DeviceMesh
from ..cost.cost_model import CostModel
from ..cost.topology import CostSource, cost_model_on
from ..errors import ShardpropError
from ..support.cache import CacheStats, list_in_stats
from .group_creation import create_groups

__all__ = ["MeshModels", "in_core"]


class _Models:
    """The core's cost models of one mesh: with its flattened groups, and without any."""

    def __init__(self, model: CostModel, flattened: tuple[tuple[int, ...], ...]) -> None:
        self.flattened = flattened
        self.merging = in_core(model, len(model.sizes))
        # One and the same where nothing can be merged, as on most meshes.
        merges = any(len(group.mesh_dims) > 1 for group in model.groups)
        self.single = in_core(model, 1) if merges else self.merging

    def distinct(self) -> list[_core.CostModel]:
        """Those that there are, each once."""
        return [self.merging] if self.single is self.merging else [self.merging, self.single]


def in_core(model: CostModel, most_mesh_dims: int) -> _core.CostModel:
    """The core's form of a cost model, without the groups of more mesh dims."""
    try:
        groups = [
            (group.mesh_dims, [line.pieces for line in group.lines])
            for group in model.groups
            if len(group.mesh_dims) <= most_mesh_dims
        ]
        return _core.CostModel(
            model.sizes,
            groups,
            model.kernel_us,
            model.memory_us_per_byte,
            model.all_to_all_gathers,
            model.callback,
        )
    except _core.CostError as error:
        raise ShardpropError(f"topology: {error}") from None
    except (AttributeError, TypeError) as error:
        raise ShardpropError(
            f"topology: Expected a CostModel of numbers and tuples, got {model!r}."
        ) from error


class _OfMesh:
    """What is known of one mesh.

    Attributes:
        mesh: The mesh, which is not kept alive.
        groups_made: Is nothing left to open?
        models: None until they are asked for.
        merging: Were collectives merged when they were asked for last?
        every_group: The model with each set of mesh dims flattened; None until it is asked for.
    """

    def __init__(self, mesh: weakref.ref[DeviceMesh], groups_made: bool) -> None:
        self.mesh = mesh
        self.groups_made = groups_made
        self.models: _Models | None = None
        self.merging = True
        self.every_group: _core.CostModel | None = None


class MeshModels:
    """What a topology says of each mesh; it keeps no mesh alive.

    Args:
        topology: What collectives and local work cost.
        create_groups: Flatten what can be flattened when a mesh is first met.

    Attributes:
        outdated: Have a mesh's groups changed since decisions were taken, or was merging switched?
            The caller that forgets these decisions sets it back.
    """

    name = "bounds of exact plans"

    def __init__(self, topology: CostSource, create_groups: bool) -> None:
        self.outdated = False
        self._topology = topology
        self._creates_groups = create_groups
        self._of_mesh: dict[int, _OfMesh] = {}
        list_in_stats(self)

    def clear(self) -> None:
        """Forget what the topology says of each mesh."""
        self._of_mesh.clear()

    def of(self, mesh: DeviceMesh) -> _core.CostModel:
        """The cost model of a mesh, with its flattened groups unless the program forbids to merge.

        Raises:
            ShardpropError: the topology does not fit the mesh, or a group could not be opened.
            _core.Unsupported: a mesh of no dims, or of more than 8.
        """
        known = self._known(mesh)
        if not known.groups_made:
            # Tried once, even where it fails: not every later op is to fail as well.
            known.groups_made = True
            known.groups_made = create_groups(mesh)
        flattened = _torch.flattened_groups(mesh)
        merging = not _torch.merging_disabled()
        if known.models is None:
            known.models = self._ask(mesh, flattened)
        elif known.models.flattened != flattened:
            known.models = self._ask(mesh, flattened)
            self.outdated = True
        elif known.merging != merging and flattened:
            self.outdated = True
        known.merging = merging
        return known.models.merging if merging else known.models.single

    def with_every_group(self, mesh: DeviceMesh) -> _core.CostModel | None:
        """The cost model that a mesh would have if each set of its dims were flattened; None where
        they are, or the program forbids to merge.

        Raises:
            ShardpropError: the topology does not fit the mesh.
        """
        missing = _torch.groups_to_flatten(mesh)
        if not missing or _torch.merging_disabled():
            return None
        flattened = tuple(sorted((*_torch.flattened_groups(mesh), *missing)))
        known = self._known(mesh)
        if known.every_group is None:
            model = cost_model_on(self._topology, mesh, flattened)
            known.every_group = in_core(model, len(model.sizes))
        return known.every_group

    def _ask(self, mesh: DeviceMesh, flattened: tuple[tuple[int, ...], ...]) -> _Models:
        return _Models(cost_model_on(self._topology, mesh, flattened), flattened)

    def _known(self, mesh: DeviceMesh) -> _OfMesh:
        # By identity: equal meshes may have other flattened groups.
        key = id(mesh)
        known = self._of_mesh.get(key)
        if known is None or known.mesh() is not mesh:
            known = _OfMesh(weakref.ref(mesh, self._forgetter(key)), not self._creates_groups)
            self._of_mesh[key] = known
        return known

    def _forgetter(self, key: int) -> Callable[[object], None]:
        """Forgets a mesh that is gone; it keeps nobody alive and dies with the entry."""
        models = weakref.ref(self)

        def forget(_: object) -> None:
            living = models()
            if living is not None:
                living._of_mesh.pop(key, None)

        return forget

    def stats(self) -> CacheStats:
        """The models held, and what the core has found out under them."""
        made = [known.models for known in list(self._of_mesh.values()) if known.models is not None]
        models = [model for each in made for model in each.distinct()]
        held = sum(sys.getsizeof(model) + model.nbytes for model in models)
        # As many as there are meshes.
        return CacheStats(len(models), len(models), held)
