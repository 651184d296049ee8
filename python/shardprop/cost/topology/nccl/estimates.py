"""All that NCCL may run a collective by, and what its tuner expects each to take.

``updateCollCostTable`` of NCCL 2.30.7's src/enqueue.cc and ``ncclTopoGetAlgoTime`` of its
src/graph/tuning.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .bandwidths import bandwidth_gb_s
from .channels import ring_channels
from .latencies import latency_us
from .machine import Wiring
from .tables import TREE_FACTORS, Algorithm, Protocol

__all__ = ["Estimate", "estimates"]

_MOST_CHANNELS = 64

# A tree's part of its bandwidth is told for messages from 64 bytes to these many.
_TREE_FACTORS, _NVLS_TREE_FACTORS = 23, 24


@dataclass(frozen=True)
class Estimate:
    """Microseconds by the bytes of the message: a line whose parts change at some sizes.

    Attributes:
        fixed_us: Of an empty message.
        us_per_byte: For each byte.
        factors: The part of the bandwidth that is reached, from 64 bytes on, from 128, and so on;
            all of it below and beyond.
        plateau_bytes: From here on the fixed time is `plateau` times as long; None for never.
        plateau: How many times.
    """

    fixed_us: float
    us_per_byte: float
    factors: tuple[float, ...] = ()
    plateau_bytes: int | None = None
    plateau: float = 1.0

    def line(self, message: int) -> tuple[float, float]:
        """The fixed time and that of each byte, for messages of a size and somewhat more."""
        doubled = (message >> 6).bit_length() - 1
        part = self.factors[doubled] if 0 <= doubled < len(self.factors) else 1.0
        plain = self.plateau_bytes is None or message < self.plateau_bytes
        return self.fixed_us * (1.0 if plain else self.plateau), self.us_per_byte / part

    def steps(self) -> set[int]:
        """The sizes at which the line changes."""
        steps = (
            {64 << doubled for doubled in range(len(self.factors) + 1)} if self.factors else set()
        )
        return steps if self.plateau_bytes is None else steps | {self.plateau_bytes}


def estimates(wiring: Wiring, collective: str) -> list[Estimate]:
    """Of every algorithm and protocol that the group can use.

    Args:
        wiring: Of the group.
        collective: all_gather, reduce_scatter or all_reduce.
    """
    found = []
    for algorithm in _algorithms(wiring, collective):
        for protocol in _protocols(wiring, algorithm):
            bandwidth = bandwidth_gb_s(wiring, collective, algorithm, protocol)
            if bandwidth > 0:
                found.append(_estimate(wiring, collective, algorithm, protocol, bandwidth))
    return found


def _algorithms(wiring: Wiring, collective: str) -> Iterator[Algorithm]:
    machine, spread = wiring.machine, wiring.nodes > 1
    yield Algorithm.RING
    if collective != "all_reduce":
        if machine.has_nvls and not spread:
            yield Algorithm.NVLS
        if spread and wiring.ranks == wiring.nodes:
            yield Algorithm.PAT
        return
    yield Algorithm.TREE
    reduces = machine.sharp and spread
    if machine.has_nvls and (not spread or reduces):
        yield Algorithm.NVLS
    if machine.has_nvls and spread:
        yield Algorithm.NVLS_TREE
    if reduces and wiring.ranks <= 8 * wiring.nodes:
        yield Algorithm.COLLNET_CHAIN
        if machine.has_nvswitch:
            yield Algorithm.COLLNET_DIRECT


def _protocols(wiring: Wiring, algorithm: Algorithm) -> Iterator[Protocol]:
    """LL128 wants stores of 128 bytes to arrive whole, which NVLink warrants and PCIe does not."""
    if algorithm in (Algorithm.RING, Algorithm.TREE):
        yield Protocol.LL
        if wiring.machine.link == "nvlink" or wiring.local == 1:
            yield Protocol.LL128
    yield Protocol.SIMPLE


def _estimate(
    wiring: Wiring, collective: str, algorithm: Algorithm, protocol: Protocol, bandwidth: float
) -> Estimate:
    fixed, per_byte = latency_us(wiring, collective, algorithm, protocol), 1e-3 / bandwidth
    if algorithm is Algorithm.TREE:
        return Estimate(fixed, per_byte, TREE_FACTORS[protocol][:_TREE_FACTORS])
    if algorithm is Algorithm.NVLS_TREE and wiring.machine.architecture == "blackwell":
        return Estimate(fixed, per_byte, TREE_FACTORS[protocol][:_NVLS_TREE_FACTORS])
    ring = algorithm is Algorithm.RING and protocol is Protocol.SIMPLE
    if ring and wiring.nodes > 1 and collective == "all_reduce":
        from_bytes = 64 * _compute_channels(wiring) * wiring.ranks
        plateau = 1.9 if wiring.machine.architecture == "volta" else 1.4
        return Estimate(fixed, per_byte, plateau_bytes=from_bytes, plateau=plateau)
    return Estimate(fixed, per_byte)


def _compute_channels(wiring: Wiring) -> int:
    """`comm->nChannels`, as ``ncclTopoPostset`` of src/graph/connect.cc leaves it."""
    rings = ring_channels(wiring)
    count = min(2 * rings.count, _MOST_CHANNELS)
    after_ampere = wiring.machine.architecture in ("hopper", "blackwell")
    fast = after_ampere and wiring.nodes > 1 and rings.intra > 45.0
    return 2 * count if fast and count < 16 else count
