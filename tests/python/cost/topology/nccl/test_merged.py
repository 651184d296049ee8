"""Merged all-reduces against split ones on 2 to 64 nodes, beside NCCL's own formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardprop.cost.cost_model import COLLECTIVES
from shardprop.cost.topology import PRESETS, Machine, Node, Topology
from shardprop.cost.topology.groups import Span

from .oracle import AMPERE, BLACKWELL, HOPPER, Cluster

KIB, MIB, GIB = 2**10, 2**20, 2**30
SIZES = (KIB, 64 * KIB, MIB, 16 * MIB, 128 * MIB, GIB)
NODES = (2, 4, 8, 16, 32, 64)
SYNC_US_PER_NODE = 0.45
LAUNCH_US = 6.6

# Of eight GPUs each, with a card for each of them.
CLUSTERS = {
    "a100-nvlink": Cluster(AMPERE, 2, 8, within=240.0, cards=8, card=25.0, amd=True),
    "h100-nvlink": Cluster(HOPPER, 2, 8, within=370.8, cards=8, card=50.0),
    "b200-nvlink": Cluster(BLACKWELL, 2, 8, within=721.8, cards=8, card=50.0),
}


def node_of(preset: str) -> Node:
    topology = PRESETS[preset]
    assert isinstance(topology, Topology) and topology.node is not None
    return topology.node


def all_reduce_us(node: Node, lies: Span, message: int) -> float:
    wire = 2 * (lies.ranks - 1) * message // lies.ranks
    return node.price("all_reduce", lies, LAUNCH_US, gathers=False).us(wire)


def merged_across_inside(nodes: int) -> tuple[Span, Span, Span]:
    """All ranks; one rank of each node; those of one node."""
    return Span(8 * nodes, nodes, 8), Span(nodes, nodes, 1), Span(8, 1, 8)


@pytest.mark.parametrize("preset", CLUSTERS)
@pytest.mark.parametrize("nodes", NODES)
def test_merged_and_split_all_reduces_are_the_tuners(preset: str, nodes: int) -> None:
    merged, across, inside = merged_across_inside(nodes)
    whole = replace(CLUSTERS[preset], nodes=nodes)
    waiting = SYNC_US_PER_NODE * (nodes - 1)
    for lies, cluster, more in (
        (merged, whole, waiting),
        (across, replace(whole, local=1, cards=1), waiting),
        (inside, replace(whole, nodes=1, cards=0), 0.0),
    ):
        for message in SIZES:
            theirs = cluster.us("all_reduce", message) + more
            ours = all_reduce_us(node_of(preset), lies, message)
            assert ours == pytest.approx(theirs, rel=1e-4)


def test_merging_pays_where_the_tuner_says_so() -> None:
    """A sum over nodes and in them, on 8 bytes to 1 GiB: with NVLink SHARP one all-reduce is always
    cheaper than two. The ring alone had it the other way on many nodes."""
    node = node_of("h100-nvlink")
    ring = replace(node, nccl=None)
    ring_splits = []
    for nodes in NODES:
        for message in (8, *SIZES):
            merged, across, inside = (
                all_reduce_us(node, lies, message) for lies in merged_across_inside(nodes)
            )
            assert merged < across + inside, (nodes, message)
            merged, across, inside = (
                all_reduce_us(ring, lies, message) for lies in merged_across_inside(nodes)
            )
            if merged > across + inside:
                ring_splits.append((nodes, message))
    assert (64, KIB) in ring_splits


def test_waiting_is_added_to_every_collective() -> None:
    node = node_of("h100-nvlink")
    plain = replace(node, nccl=Machine("hopper"))
    waits = replace(node, nccl=Machine("hopper", sync_us=3.0, sync_us_per_node=0.5))
    for lies, more in ((Span(8, 1, 8), 3.0), (Span(32, 4, 8), 4.5), (Span(4, 4, 1), 4.5)):
        for collective in COLLECTIVES:
            before, after = (
                each.price(collective, lies, LAUNCH_US, gathers=False) for each in (plain, waits)
            )
            for wire in (0, MIB, GIB):
                assert after.us(wire) == pytest.approx(before.us(wire) + more)
