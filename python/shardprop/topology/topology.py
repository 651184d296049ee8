"""A topology of latencies and bandwidths, and the lines it gives for the groups of a mesh."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .._torch import DeviceMesh
from ..cost_model import COLLECTIVES, CostModel, GroupCosts, Line
from ..errors import ShardpropError
from .groups import MeshDims, groups_of, ranks_of
from .links import Link, Measured, PerCollective, hops, us_per_byte
from .nodes import Between, Node
from .writing import json_values

__all__ = ["Between", "Group", "Memory", "Node", "Topology"]


@dataclass(frozen=True)
class Memory:
    """The local kernels: copies, chunks, the division in Replicate -> Partial.

    Attributes:
        kernel_us: Microseconds of a kernel beside the bytes it moves.
        bandwidth_gb_s: Bytes read plus bytes written.
    """

    kernel_us: float
    bandwidth_gb_s: float


@dataclass(frozen=True)
class Group:
    """An entry for one mesh dim, or for several that are flattened; it overrides the node part.

    Attributes:
        mesh_dims: Names or indices.
        links: For each collective.
    """

    mesh_dims: tuple[int | str, ...]
    links: PerCollective[Link | Measured]


@dataclass(frozen=True)
class Topology:
    """Alpha-beta costs: a fixed time, and a time for each byte.

    Values made in Python are checked when `load_topology` gets them, as files are.

    Attributes:
        name: Shown in messages and reports.
        launch_us: Microseconds to launch any collective and to wait for it.
        memory: Of local work.
        node: The links within a node and between nodes; None where `groups` tell all.
        groups: What is known of particular mesh dims.
        all_to_all_gathers: An all-to-all is made of an all-gather, as torch does over gloo.
        sources: Where the figures come from.
        origin: The file it was read from, for messages.
    """

    name: str
    launch_us: float
    memory: Memory
    node: Node | None = None
    groups: tuple[Group, ...] = ()
    all_to_all_gathers: bool = False
    sources: tuple[str, ...] = ()
    origin: str = field(default="", compare=False, repr=False)

    def on(self, mesh: DeviceMesh, flattened: Sequence[tuple[int, ...]] = ()) -> CostModel:
        """The costs on one mesh; the same on every rank.

        Args:
            mesh: Its mesh dims of size 2 and more are groups of their own.
            flattened: The several mesh dims, ascending, that have a process group in common.

        Raises:
            ShardpropError: an entry of `groups` names mesh dims that the mesh does not have, or a
                group that is not among `flattened`, or one that another entry has named; or
                nothing is known of a mesh dim.
        """
        wanted = groups_of(mesh, flattened)
        entries = self._entries(mesh, wanted)
        lines: dict[MeshDims, tuple[Line, ...]] = {}
        for dims in wanted:  # mesh dims come first, so the members of a group are known
            lines[dims] = self._lines(mesh, dims, entries, lines)
        return CostModel(
            sizes=tuple(mesh.shape),
            groups=tuple(GroupCosts(dims, lines[dims]) for dims in wanted),
            kernel_us=self.memory.kernel_us,
            memory_us_per_byte=us_per_byte(self.memory.bandwidth_gb_s),
            all_to_all_gathers=self.all_to_all_gathers,
        )

    def _lines(
        self,
        mesh: DeviceMesh,
        dims: MeshDims,
        entries: Mapping[MeshDims, PerCollective[Link | Measured]],
        known: Mapping[MeshDims, tuple[Line, ...]],
    ) -> tuple[Line, ...]:
        """Of one group: by its entry, by the node part, or by its mesh dims, which are `known`."""
        ranks = ranks_of(mesh, dims)
        if dims in entries:
            links = entries[dims]
            return tuple(links.of(name).line(name, ranks, self.launch_us) for name in COLLECTIVES)
        if self.node is not None:
            return self.node.lines(mesh, dims, self.launch_us, gathers=self.all_to_all_gathers)
        if len(dims) > 1:
            members = [(mesh.size(dim), known[dim,]) for dim in dims]
            return tuple(
                self._worst(name, ranks, [(size, lines[number]) for size, lines in members])
                for number, name in enumerate(COLLECTIVES)
            )
        names = mesh.mesh_dim_names
        called = f"mesh dim {dims[0]}" + (f" ({names[dims[0]]!r})" if names else "")
        raise ShardpropError(
            f"{self._where()}groups: Expected an entry for {called}, or a node part, got neither."
        )

    def _worst(self, collective: str, ranks: int, members: Sequence[tuple[int, Line]]) -> Line:
        """A flattened group of which nothing else is known: the largest latency of its mesh dims,
        which are given with their sizes, and the least bandwidth."""
        latency = max(
            max(0.0, line.fixed_us - self.launch_us) / hops(collective, size)
            for size, line in members
        )
        fixed = self.launch_us + hops(collective, ranks) * latency
        return Line(fixed, max(line.us_per_byte for _, line in members))

    def _entries(
        self, mesh: DeviceMesh, wanted: Sequence[MeshDims]
    ) -> dict[MeshDims, PerCollective[Link | Measured]]:
        """The links of the entries by mesh dims; those with a mesh dim of size 1 are left out."""
        number_of: dict[MeshDims, int] = {}
        for number, group in enumerate(self.groups):
            where = f"{self._where()}groups[{number}].mesh_dims"
            dims = _resolved(mesh, group.mesh_dims, where)
            if any(mesh.size(dim) == 1 for dim in dims):
                continue
            if dims in number_of:
                raise ShardpropError(
                    f"{where}: Expected a group that no other entry has, got {_shown(group)}, "
                    f"which groups[{number_of[dims]}] has."
                )
            if dims not in wanted:
                raise ShardpropError(
                    f"{where}: Expected a group that the mesh has a process group for, got "
                    f"{_shown(group)}; flatten these mesh dims or leave the entry out."
                )
            number_of[dims] = number
        return {dims: self.groups[number].links for dims, number in number_of.items()}

    def _where(self) -> str:
        return f"{self.origin or self.name}: "

    def to_json(self) -> dict[str, object]:
        """What `json.dump` takes and `load_topology` reads."""
        return json_values(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file that `load_topology` reads.

        Raises:
            OSError: it cannot be written.
        """
        Path(path).write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")


def _shown(group: Group) -> str:
    return json.dumps(group.mesh_dims)


def _resolved(mesh: DeviceMesh, mesh_dims: Sequence[int | str], where: str) -> MeshDims:
    """The ascending indices of mesh dims that are given by name or index."""
    names = mesh.mesh_dim_names or ()
    dims = []
    for number, mesh_dim in enumerate(mesh_dims):
        if isinstance(mesh_dim, int) and 0 <= mesh_dim < mesh.ndim:
            dims.append(mesh_dim)
        elif mesh_dim in names:
            dims.append(names.index(str(mesh_dim)))
        else:
            known = f" or one of {', '.join(map(repr, names))}" if names else ""
            raise ShardpropError(
                f"{where}[{number}]: Expected a mesh dim from 0 to {mesh.ndim - 1}{known}, got "
                f"{mesh_dim!r}."
            )
    if len(set(dims)) < len(dims):
        raise ShardpropError(f"{where}: Expected each mesh dim once, got {json.dumps(mesh_dims)}.")
    return tuple(sorted(dims))
