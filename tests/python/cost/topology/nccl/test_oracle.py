"""The prices against a second reading of NCCL's tuner."""

from __future__ import annotations

import pytest

from shardprop.cost.topology.nccl import piecewise_price
from shardprop.cost.topology.nccl.channels import nvls_channels, ring_channels, tree_channels

from .clusters import clusters, wiring_of
from .oracle import ARCHITECTURES, NVLS, RING, TREE, Cluster

CLUSTERS = list(clusters())
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")


def wire_of(collective: str, ranks: int, message: int) -> int:
    """What a rank sends of a message, in whole bytes as the planner counts them."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) * message // ranks
    assert message % ranks == 0
    return (ranks - 1) * message // ranks


def messages(collective: str, ranks: int) -> list[int]:
    """1 KB to 1 GB and beyond: powers of two and what lies beside them, where factors change."""
    powers = [2**power + off for power in range(4, 33) for off in (-1, 0, 1, 2 ** (power - 1))]
    if collective == "all_reduce":
        return powers
    return sorted({-(-size // ranks) * ranks for size in powers})


@pytest.mark.parametrize(
    "arch", [*(pytest.param(arch, marks=pytest.mark.slow) for arch in (0, 1, 3)), 2], ids=str
)
def test_channels_are_those_that_a_search_lays(arch: int) -> None:
    for cluster in (each for each in CLUSTERS if each.arch == arch):
        wiring = wiring_of(cluster)
        for name, kind, made in (
            ("ring", RING, ring_channels),
            ("tree", TREE, tree_channels),
            ("nvls", NVLS, nvls_channels),
        ):
            if name == "nvls" and not cluster.has_nvls:
                continue
            ours, theirs = made(wiring), cluster.graphs[kind]
            laid = (theirs.channels, theirs.intra, theirs.inter)
            if cluster.nodes == 1:  # where nothing is between, its speed counts in no formula
                laid = (*laid[:2], ours.inter) if name != "nvls" else laid
            assert (ours.count, ours.intra, ours.inter) == laid, (name, cluster)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_prices_are_the_tuners_on_some_clusters(collective: str) -> None:
    compare(collective, CLUSTERS[::13])


@pytest.mark.slow
@pytest.mark.parametrize("arch", range(4), ids=ARCHITECTURES)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_prices_are_the_tuners(collective: str, arch: int) -> None:
    compare(collective, [cluster for cluster in CLUSTERS if cluster.arch == arch])


def compare(collective: str, some: list[Cluster]) -> None:
    for cluster in some:
        price = piecewise_price(wiring_of(cluster), collective)
        for message in messages(collective, cluster.ranks):
            ours = price.us(wire_of(collective, cluster.ranks, message))
            # An all-reduce's wire bytes are whole, so that the last byte of a message may be lost.
            lost = 2e-3 if collective == "all_reduce" else 0
            assert ours == pytest.approx(cluster.us(collective, message), rel=1e-9, abs=lost), (
                message,
                cluster,
            )


def test_every_algorithm_and_protocol_is_the_least_somewhere() -> None:
    """Else the comparison would say nothing of it."""
    least = set()
    for cluster in CLUSTERS[::3]:
        for collective in COLLECTIVES:
            for message in (2**power for power in range(4, 33, 3)):
                times = cluster.times(collective, message)
                least.add(min(times, key=lambda which: times[which]))
    assert {algorithm for algorithm, _ in least} == set(range(7))
    assert {least_of for least_of in least if least_of[0] in (TREE, RING)} == {
        (algorithm, protocol) for algorithm in (TREE, RING) for protocol in range(3)
    }


def test_a_price_falls_where_the_tuners_does() -> None:
    """It is not smoothed: bounds of the search allow for it."""
    cluster = Cluster(arch=3, nodes=8, local=8, within=721.8, cards=8, card=50.0)
    price = piecewise_price(wiring_of(cluster), "all_reduce")
    falls = [
        before.fixed_us + after.from_bytes * before.us_per_byte - price.us(after.from_bytes)
        for before, after in zip(price.pieces, price.pieces[1:], strict=False)
    ]
    assert max(falls) > 10
