"""What bandwidth the tuner expects of an algorithm with a protocol.

``ncclTopoTuneModel`` of NCCL 2.30.7's src/graph/tuning.cc. It takes a "bus" bandwidth, what a ring
has to carry, and turns it into bytes of the message a second.
"""

from __future__ import annotations

from .channels import (
    Channels,
    collnet_direct_channels,
    nvls_channels,
    ring_channels,
    tree_channels,
)
from .machine import Wiring
from .tables import (
    LL_BETWEEN_GB_S,
    LL_WITHIN_GB_S,
    NVLS_EFFICIENCY,
    NVLS_TREE_CHANNEL_GB_S,
    RING_LL128_CHANNEL_GB_S,
    TREE_CHANNEL_GB_S,
    TREE_LL128_CHANNEL_GB_S,
    Algorithm,
    Protocol,
)

__all__ = ["bandwidth_gb_s"]

# A tree of one chain on each node, which is what the search finds from Hopper on (with a card for
# each channel, a balanced one has no way back to its card), and where a node has one rank.
_CHAIN_TREE_PART = 0.85


def bandwidth_gb_s(
    wiring: Wiring, collective: str, algorithm: Algorithm, protocol: Protocol
) -> float:
    """GB/s of the message's bytes, before what depends on their number; 0 where it cannot run.

    The message of an all-gather is what each rank ends with, that of a reduce-scatter what each
    begins with.

    Args:
        wiring: Of the group.
        collective: all_gather, reduce_scatter or all_reduce.
        algorithm: One that the collective has.
        protocol: One that the algorithm has.
    """
    if algorithm is Algorithm.RING:
        return _ring(wiring, protocol) * wiring.ranks / _steps(wiring, collective)
    if algorithm is Algorithm.TREE:
        return 0.5 * _tree(wiring, protocol)
    if algorithm is Algorithm.PAT:
        trees = tree_channels(wiring)
        return 0.75 * trees.count * _carried(wiring, trees)
    if algorithm is Algorithm.COLLNET_DIRECT:
        return 0.5 * _collnet_direct(wiring)
    if algorithm is Algorithm.COLLNET_CHAIN:
        trees = tree_channels(wiring)
        return 0.5 * trees.count * trees.intra
    return _nvls(wiring, collective, algorithm)


def _steps(wiring: Wiring, collective: str) -> int:
    return (2 if collective == "all_reduce" else 1) * (wiring.ranks - 1)


def _carried(wiring: Wiring, channels: Channels) -> float:
    """A channel's speed: up to two nodes that within a node counts."""
    return channels.intra if wiring.nodes <= 2 else channels.inter


def _most_of_ll(wiring: Wiring) -> float:
    if wiring.nodes == 1:
        return LL_WITHIN_GB_S[wiring.machine.architecture]
    return LL_BETWEEN_GB_S[wiring.machine.cpu][wiring.node_column - 1]


def _ring(wiring: Wiring, protocol: Protocol) -> float:
    rings = ring_channels(wiring)
    bus = rings.count * _carried(wiring, rings)
    if protocol is Protocol.LL:
        return min(_most_of_ll(wiring), 0.5 * bus)
    if protocol is Protocol.LL128:
        channel = RING_LL128_CHANNEL_GB_S[wiring.machine.architecture][wiring.node_column]
        return min(0.92 * bus, rings.count * channel)
    return bus


def _tree(wiring: Wiring, protocol: Protocol) -> float:
    trees = tree_channels(wiring)
    architecture, column = wiring.machine.architecture, wiring.node_column
    bus = 0.92 * trees.count * _carried(wiring, trees)
    bus = min(bus, trees.count * TREE_CHANNEL_GB_S[architecture][column])
    if protocol is Protocol.LL:
        bus = min(bus / 3.8, _most_of_ll(wiring))
    if protocol is Protocol.LL128:
        part = 7 / 9 if wiring.nodes == 1 else 120 / 128
        bus = min(part * bus, trees.count * TREE_LL128_CHANNEL_GB_S[architecture][column])
    chain = wiring.nodes > 1 and (wiring.local == 1 or architecture in ("hopper", "blackwell"))
    return _CHAIN_TREE_PART * bus if chain else bus


def _collnet_direct(wiring: Wiring) -> float:
    channels = collnet_direct_channels(wiring)
    gpus_per_card = wiring.ranks / wiring.nodes / channels.count
    bus = channels.count * channels.intra / (gpus_per_card - (gpus_per_card - 1) / 2)
    return 0.85 * bus if wiring.machine.architecture in ("hopper", "blackwell") else bus


def _nvls(wiring: Wiring, collective: str, algorithm: Algorithm) -> float:
    channels = nvls_channels(wiring)
    if channels.count < 2:
        return 0.0
    architecture = wiring.machine.architecture
    # All but one of the channels' owners draw from a channel.
    others = (channels.count - 1) / channels.count
    intra = channels.intra * NVLS_EFFICIENCY[architecture] * others
    if collective == "all_reduce":
        intra *= 2  # what is reduced and what is spread go at once
    else:
        intra *= 1 - wiring.nodes / wiring.ranks
    bandwidths = [intra, channels.inter]
    if algorithm is Algorithm.NVLS_TREE:
        if wiring.nodes == 2:
            bandwidths[1] *= 2
        bandwidths.append(NVLS_TREE_CHANNEL_GB_S[architecture][wiring.node_column])
    bus = channels.count * min(bandwidths)
    if collective == "all_reduce":
        return bus * wiring.ranks / _steps(wiring, collective)
    return bus
