"""A topology of latencies and bandwidths, and the lines it gives for the groups of a mesh."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..._torch import DeviceMesh
from ...errors import ShardpropError
from ..cost_model import COLLECTIVES, CostModel, GroupCosts, LinearPrice, PiecewisePrice
from .compute import Compute
from .entries import Lineage, entries_on
from .groups import MeshDims, groups_of, ranks_of
from .links import Link, Measured, PerCollective, hops, us_per_byte
from .nccl import Machine
from .nodes import Between, Node
from .writing import json_values

__all__ = ["Between", "Compute", "Group", "Machine", "Memory", "Node", "Topology"]


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
        mesh_dims: Names, or indices in the root mesh.
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
        compute: What prices of ops need beside the memory; None where it is not known.
        origin: The file it was read from, for messages.
    """

    name: str
    launch_us: float
    memory: Memory
    node: Node | None = None
    groups: tuple[Group, ...] = ()
    all_to_all_gathers: bool = False
    sources: tuple[str, ...] = ()
    compute: Compute | None = None
    origin: str = field(default="", compare=False, repr=False)

    def on(self, mesh: DeviceMesh, flattened: Sequence[tuple[int, ...]] = ()) -> CostModel:
        """The costs on one mesh; the same on every rank.

        Args:
            mesh: Its mesh dims of size 2 and more are groups of their own.
            flattened: The several mesh dims, ascending, that have a process group in common.

        Entries are for the dims of the mesh's root mesh, so that one file serves the meshes that
        are cut from it or flattened in it; those for dims that this mesh lacks are passed over.

        Raises:
            ShardpropError: the mesh has several ranks, and an entry of `groups` names mesh dims
                that neither it nor its root has, or a group that is not among `flattened`, or one
                that another entry has named; or nothing is known of a mesh dim.
        """
        wanted = groups_of(mesh, flattened)
        lineage = Lineage(mesh)
        named = [group.mesh_dims for group in self.groups]
        # Nothing moves on a mesh of one rank; torch has one, without names, in decompositions.
        entries = entries_on(lineage, named, wanted, self._where()) if wanted else {}
        return CostModel(
            sizes=tuple(mesh.shape),
            groups=tuple(GroupCosts(dims, self._prices(lineage, dims, entries)) for dims in wanted),
            kernel_us=self.memory.kernel_us,
            memory_us_per_byte=us_per_byte(self.memory.bandwidth_gb_s),
            all_to_all_gathers=self.all_to_all_gathers,
        )

    def _prices(
        self, lineage: Lineage, dims: MeshDims, entries: Mapping[MeshDims, int]
    ) -> tuple[LinearPrice | PiecewisePrice, ...]:
        """Of one group: by its entry, by the node part, or by its members' entries."""
        if self.node is not None and lineage.root_dims(dims) not in entries:
            gathers = self.all_to_all_gathers
            return self.node.lines(lineage.mesh, dims, self.launch_us, gathers=gathers)
        return self._linear_prices(lineage, dims, entries)

    def _linear_prices(
        self, lineage: Lineage, dims: MeshDims, entries: Mapping[MeshDims, int]
    ) -> tuple[LinearPrice, ...]:
        mesh, of_root = lineage.mesh, lineage.root_dims(dims)
        ranks = ranks_of(mesh, dims)
        if of_root is not None and of_root in entries:
            return self._entry_prices(entries[of_root], ranks)
        if len(dims) > 1:
            alone = [(mesh.size(d), self._linear_prices(lineage, (d,), entries)) for d in dims]
            return self._worst(ranks, alone)
        if of_root is not None and all((dim,) in entries for dim in of_root):
            sizes = [(lineage.root.size(dim), entries[dim,]) for dim in of_root]
            return self._worst(ranks, [(n, self._entry_prices(entry, n)) for n, entry in sizes])
        names = mesh.mesh_dim_names
        called = f"mesh dim {dims[0]}" + (f" ({names[dims[0]]!r})" if names else "")
        raise ShardpropError(
            f"{self._where()}$.groups: Expected an entry for {called}, or a node part, got neither."
        )

    def _entry_prices(self, number: int, ranks: int) -> tuple[LinearPrice, ...]:
        links = self.groups[number].links
        return tuple(
            links.of(name).linear_price(name, ranks, self.launch_us) for name in COLLECTIVES
        )

    def _worst(
        self, ranks: int, members: Sequence[tuple[int, tuple[LinearPrice, ...]]]
    ) -> tuple[LinearPrice, ...]:
        """A flattened group of which nothing else is known: the largest latency of its mesh dims,
        which are given with their sizes, and the least bandwidth."""

        def linear_price(number: int, collective: str) -> LinearPrice:
            latency = max(
                max(0.0, lines[number].fixed_us - self.launch_us) / hops(collective, size)
                for size, lines in members
            )
            fixed = self.launch_us + hops(collective, ranks) * latency
            return LinearPrice(fixed, max(lines[number].us_per_byte for _, lines in members))

        return tuple(linear_price(*numbered) for numbered in enumerate(COLLECTIVES))

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
