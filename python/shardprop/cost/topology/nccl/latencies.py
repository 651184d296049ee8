"""What an empty message takes by NCCL's tuner, for an algorithm with a protocol.

``ncclTopoTuneModel`` of NCCL 2.30.7's src/graph/tuning.cc, for network cards that name no latency
of their own, as those of InfiniBand.
"""

from __future__ import annotations

from .machine import Wiring
from .tables import BASE_US, HOP_US, NET_OVERHEAD_US, Algorithm, Protocol

__all__ = ["latency_us"]

_PROTOCOLS = tuple(Protocol)


def latency_us(wiring: Wiring, collective: str, algorithm: Algorithm, protocol: Protocol) -> float:
    """Microseconds of a message of no bytes.

    Args:
        wiring: Of the group.
        collective: all_gather, reduce_scatter or all_reduce.
        algorithm: One that the collective has.
        protocol: One that the algorithm has.
    """
    column = _PROTOCOLS.index(protocol)
    base = BASE_US[algorithm][column]
    within = HOP_US[wiring.machine.link][algorithm][column]
    # With one rank on a node nothing hides the network's latency: the tree's, whatever is used.
    crosses = Algorithm.TREE if wiring.ranks == wiring.nodes else algorithm
    between = HOP_US["network"][crosses][column]
    nodes, others = wiring.nodes, wiring.ranks // wiring.nodes - 1
    doublings = nodes.bit_length() - 1
    if algorithm is Algorithm.RING:
        return base + _ring_us(wiring, collective, protocol, within, between)
    if algorithm is Algorithm.TREE:
        return base + 2 * (others * within + doublings * between)
    if algorithm is Algorithm.COLLNET_DIRECT:
        # A GPU sends to the others of its node one after the other, 0.4 us each.
        return base + 2 * (min(1, others) * within + others * 0.4) + between
    if algorithm is Algorithm.COLLNET_CHAIN:
        return base + 2 * others * within + between
    if algorithm is Algorithm.NVLS:
        return within + (between if nodes > 1 else 0.0)
    if algorithm is Algorithm.NVLS_TREE:
        return base + within + 2 * doublings * between
    return base + doublings * between / 3.5 + wiring.ranks * 2.8


def _ring_us(
    wiring: Wiring, collective: str, protocol: Protocol, within: float, between: float
) -> float:
    """Each piece goes once around, in an all-reduce twice."""
    rounds = 2 if collective == "all_reduce" else 1
    crossing = rounds * (wiring.nodes - 1)
    inside = rounds * (wiring.ranks - 1) - crossing
    if wiring.nodes > 1:
        overhead = NET_OVERHEAD_US[wiring.machine.cpu]
        within = max(within, 3 * overhead if protocol is Protocol.SIMPLE else overhead)
    return inside * within + crossing * between
