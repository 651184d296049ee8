"""The groups of ranks that a plan on a mesh may use, and how they lie on the nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..._torch import DeviceMesh, no_modes
from ...errors import ShardpropError
from ..cost_model import CostModel

__all__ = ["CostSource", "MeshDims", "Span", "groups_of", "ranks_of", "span"]

# Ascending, none of size 1.
MeshDims = tuple[int, ...]


class CostSource(Protocol):
    """What can price plans on a mesh: a topology of any kind."""

    def on(self, mesh: DeviceMesh, flattened: Sequence[tuple[int, ...]] = ()) -> CostModel:
        """The cost model of a mesh with process groups for `flattened`, too."""
        ...


def groups_of(mesh: DeviceMesh, flattened: Sequence[tuple[int, ...]]) -> list[MeshDims]:
    """Each mesh dim of size 2 and more alone, then the flattened groups, as they are given.

    Mesh dims of size 1 are left out of the groups; what has fewer than two left, or is there
    already, is left out.

    Raises:
        ShardpropError: a flattened group is not ascending or names a mesh dim that is not there.
    """
    groups: list[MeshDims] = [(dim,) for dim in range(mesh.ndim) if mesh.size(dim) > 1]
    for number, dims in enumerate(flattened):
        ascending = list(dims) == sorted(set(dims))
        if not ascending or not all(0 <= dim < mesh.ndim for dim in dims):
            raise ShardpropError(
                f"flattened[{number}]: Expected mesh dims from 0 to {mesh.ndim - 1} in ascending "
                f"order, got {tuple(dims)}."
            )
        active = tuple(dim for dim in dims if mesh.size(dim) > 1)
        if len(active) > 1 and active not in groups:
            groups.append(active)
    return groups


def ranks_of(mesh: DeviceMesh, dims: MeshDims) -> int:
    """How many ranks a group over these mesh dims has."""
    return math.prod(mesh.size(dim) for dim in dims)


@dataclass(frozen=True)
class Span:
    """How the groups over some mesh dims lie on the nodes; the worst of them counts.

    So it is the same on every rank, whichever group that rank is in.

    Attributes:
        ranks: In each group.
        nodes: The most that one group is spread over.
        ranks_per_node: The fewest that a group which is spread has on one of its nodes.
    """

    ranks: int
    nodes: int
    ranks_per_node: int


def span(mesh: DeviceMesh, dims: MeshDims, devices_per_node: int) -> Span:
    """How the groups over `dims` lie on nodes of so many devices; rank // devices is the node."""
    ranks = ranks_of(mesh, dims)
    nodes, ranks_per_node = 1, ranks
    for members in _members(mesh, dims, ranks):
        on_node = Counter(rank // devices_per_node for rank in members)
        nodes = max(nodes, len(on_node))
        ranks_per_node = min(ranks_per_node, *on_node.values())
    return Span(ranks, nodes, ranks_per_node)


def _members(mesh: DeviceMesh, dims: MeshDims, ranks: int) -> list[list[int]]:
    """The global ranks of every group over these mesh dims."""
    with no_modes():  # one that is on, such as a compiler's, is not to see it
        groups = mesh.mesh.movedim(dims, tuple(range(len(dims)))).reshape(ranks, -1)
        members: list[list[int]] = groups.t().tolist()
    return members
