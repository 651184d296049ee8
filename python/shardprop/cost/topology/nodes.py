"""Nodes of several devices: fast links within, slower ones between."""

from __future__ import annotations

from dataclasses import dataclass

from ..._torch import DeviceMesh
from ..cost_model import COLLECTIVES, LinearPrice, PiecewisePrice
from .groups import MeshDims, Span, ranks_of, span
from .links import Link, PerCollective, hops, us_per_byte
from .nccl import Machine, Wiring, piecewise_price

__all__ = ["Between", "Node"]

# NCCL's tuner has no estimate of what is made of sends and receives.
_TUNED = ("all_gather", "reduce_scatter", "all_reduce")


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
        nccl: What NCCL runs on. With it all-gathers, reduce-scatters and all-reduces have the
            prices of NCCL's tuner: of their links the bandwidths count, the latencies do not. None:
            they have those of a ring over the links.
    """

    within: PerCollective[Link]
    between: Between | None = None
    nccl: Machine | None = None

    def lines(
        self, mesh: DeviceMesh, dims: MeshDims, launch_us: float, *, gathers: bool
    ) -> tuple[LinearPrice | PiecewisePrice, ...]:
        """The prices of the collectives over these mesh dims, wherever their groups lie.

        Args:
            mesh: Whose global ranks tell the nodes.
            dims: The group.
            launch_us: Of any collective that is priced by its links.
            gathers: An all-to-all is made of an all-gather.
        """
        ranks = ranks_of(mesh, dims)
        lies = Span(ranks, 1, ranks)
        if self.between is not None:
            lies = span(mesh, dims, self.between.devices)
        return tuple(self.price(name, lies, launch_us, gathers=gathers) for name in COLLECTIVES)

    def price(
        self, collective: str, lies: Span, launch_us: float, *, gathers: bool
    ) -> LinearPrice | PiecewisePrice:
        """The price of one collective over a group that lies on the nodes in some way."""
        if self.nccl is not None and collective in _TUNED:
            return piecewise_price(self._wiring(self.nccl, collective, lies), collective)
        if self.nccl is not None:
            launch_us += self.nccl.waiting_us(lies.nodes)
        within, between = self.within.of(collective), self.between
        if between is None or lies.nodes == 1:
            return within.linear_price(collective, lies.ranks, launch_us)
        across = between.links.of(collective)
        return _linear_price(collective, lies, within, across, launch_us, gathers)

    def _wiring(self, machine: Machine, collective: str, lies: Span) -> Wiring:
        """What a group has of the links, for NCCL's tuner."""
        within, between = self.within.of(collective).bandwidth_gb_s, self.between
        local = lies.ranks_per_node
        if between is None or lies.nodes == 1:
            return Wiring(machine, lies.ranks, 1, lies.ranks, within)
        cards = machine.cards or between.devices
        card_gb_s = between.links.of(collective).bandwidth_gb_s * between.devices / cards
        near = max(1, min(cards, local * cards // between.devices))
        return Wiring(machine, lies.ranks, lies.nodes, local, within, near, card_gb_s)


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
