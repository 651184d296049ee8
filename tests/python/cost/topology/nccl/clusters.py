"""Clusters to compare on: as the package sees them, and as the oracle does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardprop.cost.topology.nccl import Machine, Wiring

from .oracle import ARCHITECTURES, NVLINK, PCI, Cluster

__all__ = ["NODES", "PER_NODE", "clusters", "wiring_of"]

NODES = (1, 2, 3, 4, 5, 8, 16, 24, 32, 64)
PER_NODE = (1, 2, 3, 4, 8)

# GB/s of a GPU's links and of a card, by architecture.
_BANDWIDTHS = ((120.0, 12.5), (240.0, 25.0), (370.8, 50.0), (721.8, 50.0))


def wiring_of(cluster: Cluster) -> Wiring:
    """The same group for the package."""
    machine = Machine(
        ARCHITECTURES[cluster.arch],
        link="pcie" if cluster.link == PCI else "nvlink",
        nvswitch=cluster.nvswitch,
        cpu="amd" if cluster.amd else "intel",
        sharp=cluster.sharp,
    )
    wiring = Wiring(machine, cluster.ranks, cluster.nodes, cluster.local, cluster.within)
    return replace(wiring, cards=cluster.cards, card_gb_s=cluster.card)


def clusters() -> Iterator[Cluster]:
    """Every architecture on 1 to 64 nodes, with 1 to 8 ranks on each: as the presets have them, and
    other processors, fewer cards, switches that reduce, no NVSwitch, PCIe."""
    for arch, (within, card) in enumerate(_BANDWIDTHS):
        for nodes in NODES:
            for local in PER_NODE:
                if nodes * local < 2:
                    continue
                near = local if nodes > 1 else 0
                usual = Cluster(arch, nodes, local, within, near, card)
                yield usual
                if nodes in (5, 24):
                    continue
                yield replace(usual, amd=True, sharp=True)
                yield replace(usual, nvswitch=False, sharp=True)
                pcie = replace(usual, within=24.0, link=PCI, nvswitch=False)
                yield replace(pcie, cards=min(1, near))
                if nodes > 1:
                    yield replace(usual, cards=max(1, local // 2), card=100.0, link=NVLINK)
