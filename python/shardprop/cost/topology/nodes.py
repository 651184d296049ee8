"""Nodes of several devices: fast links within, slower ones between."""

from __future__ import annotations

from dataclasses import dataclass

from ..._torch import DeviceMesh
from ..cost_model import COLLECTIVES, LinearPrice
from .groups import MeshDims, Span, ranks_of, span
from .links import Link, PerCollective, hops, us_per_byte

__all__ = ["Between", "Node"]


@dataclass(frozen=True)
class Between:
    """What connects the nodes.

    Attributes:
        devices: In one node; a device's node is its global rank // devices.
        links: For each collective; the bandwidth is what one device has of the network.
    """

    devices: int
    links: PerCollective[Link]


@dataclass(frozen=True)
class Node:
    """The links of a device within its node, and to other nodes.

    Attributes:
        within: For each collective.
        between: None where all ranks are on one node.
    """

    within: PerCollective[Link]
    between: Between | None = None

    def lines(
        self, mesh: DeviceMesh, dims: MeshDims, launch_us: float, *, gathers: bool
    ) -> tuple[LinearPrice, ...]:
        """The prices of the collectives over these mesh dims, wherever their groups lie.

        Args:
            mesh: Whose global ranks tell the nodes.
            dims: The group.
            launch_us: Of any collective.
            gathers: An all-to-all is made of an all-gather.
        """
        between = self.between
        lies = None if between is None else span(mesh, dims, between.devices)
        if between is None or lies is None or lies.nodes == 1:
            ranks = ranks_of(mesh, dims)
            return tuple(self.within.of(n).linear_price(n, ranks, launch_us) for n in COLLECTIVES)
        return tuple(
            _linear_price(
                name, lies, self.within.of(name), between.links.of(name), launch_us, gathers
            )
            for name in COLLECTIVES
        )


def _linear_price(
    collective: str, lies: Span, within: Link, between: Link, launch_us: float, gathers: bool
) -> LinearPrice:
    """The price of a collective over several nodes."""
    crossing = hops(collective, lies.nodes)
    inside = hops(collective, lies.ranks) - crossing
    fixed = launch_us + inside * within.latency_us + crossing * between.latency_us
    like = "all_gather" if gathers and collective == "all_to_all" else collective
    bandwidth = min(within.bandwidth_gb_s, _network_gb_s(like, between.bandwidth_gb_s, lies))
    return LinearPrice(fixed, us_per_byte(bandwidth))


def _network_gb_s(collective: str, device_gb_s: float, lies: Span) -> float:
    """At what rate a rank can send its wire bytes, as far as the network goes.

    - Ring collectives: NCCL lays one ring for each network card that the group has on a node, and
      each enters and leaves the node through another card, so the bus bandwidth is that of all of
      them (``busBw = nChannels * speedInter`` in its src/graph/tuning.cc).
    - All-to-all: a rank sends to the ranks of other nodes through its own card, and that is a part
      of its bytes only.
    - Permutation: a rank may have to send all of it to another node.
    """
    if collective == "permute":
        return device_gb_s
    if collective == "all_to_all":
        return device_gb_s * (lies.ranks - 1) / (lies.ranks - lies.ranks_per_node)
    return device_gb_s * lies.ranks_per_node
