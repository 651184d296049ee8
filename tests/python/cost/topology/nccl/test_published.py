"""Prices against measurements that others published; docs/cost-models.md has the table.

The tuner's estimates are meant to rank algorithms, and the measurements are of other versions of
NCCL on machines that are not ours: so no more is asserted than that none is off by half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from shardprop.cost.topology import Topology, load_topology
from shardprop.cost.topology.groups import Span

ISSUES = "https://github.com/NVIDIA"


@dataclass(frozen=True)
class Measured:
    """A collective on so many nodes of eight, with its message; the microseconds, or the "bus
    bandwidth" that nccl-tests makes of them."""

    source: str
    preset: str
    collective: str
    nodes: int
    message: int
    us: float = 0.0
    bus_gb_s: float = 0.0
    cards: int = 8

    def measured_us(self) -> float:
        return self.us or self.wire() / self.bus_gb_s / 1e3

    def wire(self) -> int:
        ranks = 8 * self.nodes
        return (2 if self.collective == "all_reduce" else 1) * (ranks - 1) * self.message // ranks


GIB = 2**30
MEASURED = {
    # "Ring: 370, with NVLink SHARP about 480", by a developer of NCCL, for large messages.
    "all-reduce, 8 H100, 8 GiB": Measured(
        f"{ISSUES}/nccl-tests/issues/212", "h100-nvlink", "all_reduce", 1, 8 * GIB, bus_gb_s=480
    ),
    "all-gather, 8 H100, 8 GiB": Measured(
        f"{ISSUES}/nccl-tests/issues/212", "h100-nvlink", "all_gather", 1, 8 * GIB, bus_gb_s=370
    ),
    "all-reduce, 2 nodes of H100, 8 GiB": Measured(
        f"{ISSUES}/nccl/issues/1221", "h100-nvlink", "all_reduce", 2, 8 * GIB, bus_gb_s=430
    ),
    "all-reduce, 4 nodes of H100, 8 GiB": Measured(
        f"{ISSUES}/nccl/issues/1221", "h100-nvlink", "all_reduce", 4, 8 * GIB, bus_gb_s=320
    ),
    "all-reduce, 248 nodes of H200, 512 MiB": Measured(
        f"{ISSUES}/nccl-tests/issues/283", "h100-nvlink", "all_reduce", 248, GIB // 2, bus_gb_s=350
    ),
    "all-reduce, 3 nodes of A100 with 4 cards, 125 MiB": Measured(
        f"{ISSUES}/nccl-tests/issues/119",
        "a100-nvlink",
        "all_reduce",
        3,
        131_072_008,
        us=2604.6,
        cards=4,
    ),
    "all-reduce, 16 nodes of H100, 8 bytes": Measured(
        f"{ISSUES}/nccl/issues/1469", "h100-nvlink", "all_reduce", 16, 8, us=62.0
    ),
    "all-reduce, 16 nodes of H100, 4 KiB": Measured(
        f"{ISSUES}/nccl/issues/1469", "h100-nvlink", "all_reduce", 16, 4096, us=76.6
    ),
    "all-reduce, 8 H20, 8 bytes": Measured(
        "https://github.com/deepseek-ai/DeepEP/issues/303", "h100-nvlink", "all_reduce", 1, 8, 12.5
    ),
    "all-reduce, 8 H20, 4 KiB": Measured(
        "https://github.com/deepseek-ai/DeepEP/issues/303",
        "h100-nvlink",
        "all_reduce",
        1,
        4096,
        us=16.7,
    ),
}


@pytest.mark.parametrize("measured", MEASURED.values(), ids=MEASURED.keys())
def test_a_price_is_not_far_from_what_was_measured(measured: Measured) -> None:
    topology = load_topology(measured.preset)
    assert isinstance(topology, Topology)
    if measured.cards != 8:
        document: dict[str, Any] = topology.to_json()
        document["node"]["nccl"] |= {"cards": measured.cards, "cpu": "intel"}
        document["node"]["between"]["bandwidth_gb_s"] *= measured.cards / 8
        topology = load_topology(document)
    assert topology.node is not None
    lies = Span(8 * measured.nodes, measured.nodes, 8)
    line = topology.node.price(measured.collective, lies, topology.launch_us, gathers=False)
    price = line.us(measured.wire())
    ratio = price / measured.measured_us()
    print(f"{ratio:.2f}: {price:.1f} us, measured {measured.measured_us():.1f}; {measured.source}")
    assert 0.5 < ratio < 1.5
