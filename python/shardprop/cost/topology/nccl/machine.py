"""What NCCL's tuner has to know of the machines beside the bandwidths of their links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Architecture", "Cpu", "LinkKind", "Machine", "Wiring"]

# As the tuner tells them apart, by compute capability: 7.x, 8.x, 9.x, 10 and later.
Architecture = Literal["volta", "ampere", "hopper", "blackwell"]
LinkKind = Literal["nvlink", "pcie"]
Cpu = Literal["intel", "amd"]

# With these, NVSwitch reduces and copies by itself.
_WITH_NVLS = ("hopper", "blackwell")


@dataclass(frozen=True)
class Machine:
    """Nodes of GPUs on which NCCL runs.

    Attributes:
        architecture: Of the GPUs.
        link: What joins the GPUs of a node.
        nvswitch: What joins them by NVLink is NVSwitch; it says nothing where PCIe does. From
            Hopper on, NCCL uses NVLink SHARP there.
        cards: Network cards in a node, each near the GPUs that use it; None for one a GPU.
        cpu: Of the nodes: how fast it posts messages, and how far the LL protocol gets.
        sharp: The network's switches reduce (SHARP), and NCCL is told to use that
            (``NCCL_COLLNET_ENABLE=1``).
        sync_us: Microseconds that any collective takes beyond the tuner's estimate, which knows
            nothing of ranks that come late: what they wait for each other.
        sync_us_per_node: The same for each node beyond the first that a group is spread over.
    """

    architecture: Architecture
    link: LinkKind = "nvlink"
    nvswitch: bool = True
    cards: int | None = None
    cpu: Cpu = "intel"
    sharp: bool = False
    sync_us: float = 0.0
    sync_us_per_node: float = 0.0

    @property
    def has_nvswitch(self) -> bool:
        """Are the GPUs of a node joined by NVSwitch?"""
        return self.nvswitch and self.link == "nvlink"

    @property
    def has_nvls(self) -> bool:
        """Does NVSwitch reduce and copy by itself (NVLink SHARP)?"""
        return self.has_nvswitch and self.architecture in _WITH_NVLS

    def waiting_us(self, nodes: int) -> float:
        """Microseconds that a collective of a group on so many nodes takes beyond the tuner's."""
        return self.sync_us + self.sync_us_per_node * (nodes - 1)


@dataclass(frozen=True)
class Wiring:
    """What the ranks of one group have of the machines.

    Attributes:
        machine: The machines.
        ranks: In the group.
        nodes: That it is spread over.
        local: Its ranks on the node that has fewest.
        within_gb_s: What one GPU sends to the others of its node, in one direction.
        cards: Network cards that the group has on a node.
        card_gb_s: What one of them sends.
    """

    machine: Machine
    ranks: int
    nodes: int
    local: int
    within_gb_s: float
    cards: int = 0
    card_gb_s: float = 0.0

    @property
    def node_column(self) -> int:
        """Of the tables that have an entry for one node, for two, and for more."""
        return min(self.nodes, 3) - 1
