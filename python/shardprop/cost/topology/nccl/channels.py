"""The channels that NCCL lays over a group: how many, and how fast each is.

NCCL searches for them, and this is what its search (``ncclTopoCompute`` of src/graph/search.cc)
comes to where all GPUs of a node have the same links and each network card is near the GPUs that
use it: of the speeds that are tried, the first whose channels together carry most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .machine import Wiring
from .tables import INTER_SPEEDS, INTRA_SPEEDS

__all__ = ["Channels", "collnet_direct_channels", "nvls_channels", "ring_channels", "tree_channels"]

# `MAXCHANNELS / 2`, NCCL_MAX_NVLS_ARITY and NCCL_MAX_DIRECT_ARITY + 1 of src/include/device.h.
_MOST_RINGS, _MOST_NVLS_HEADS, _MOST_DIRECT_HEADS = 32, 32, 8

# The search stops where the next speed is no more than this part of the best one.
_SLOWEST_PART = 0.49


@dataclass(frozen=True)
class Channels:
    """Of one algorithm.

    Attributes:
        count: How many.
        intra: GB/s of each within a node.
        inter: GB/s of each between nodes.
    """

    count: int
    intra: float
    inter: float


def ring_channels(wiring: Wiring) -> Channels:
    """Rings: as many as links and cards carry, twice as many where they are few and fast."""
    speeds = _speeds(wiring)
    best = Channels(0, 0.0, 0.0)
    for speed in speeds:
        if best.count and speed / best.inter <= _SLOWEST_PART:
            break
        count = min(_MOST_RINGS, _room(wiring, speed))
        if count * speed > best.count * best.inter:
            best = Channels(count, speed, speed)
        if best.count * best.inter >= wiring.within_gb_s:
            break
    if not best.count:
        return Channels(1, speeds[-1], speeds[-1])
    best = _twice(best, wiring)
    faster = [speed for speed in speeds if speed > best.inter and _fits(wiring, best.count, speed)]
    return Channels(best.count, faster[0], faster[0]) if faster else best


def tree_channels(wiring: Wiring) -> Channels:
    """Trees: as many as there are rings, and within a node perhaps faster than between."""
    count, speeds = ring_channels(wiring).count, _speeds(wiring)
    inter = next((speed for speed in speeds if _fits(wiring, count, speed)), speeds[-1])
    return Channels(count, _faster_within(wiring, count, inter), inter)


def nvls_channels(wiring: Wiring) -> Channels:
    """Of NVLink SHARP: a channel for each GPU that draws from the switch, and sends to the network.

    A channel takes its speed once from each GPU's links, and once more from those of its own GPU.
    """
    speeds = _speeds(wiring)
    most = min(_MOST_NVLS_HEADS, wiring.local)
    best = Channels(0, 0.0, 0.0)
    for speed in speeds:
        if best.count and speed / best.inter <= _SLOWEST_PART:
            break
        count = min(most, int(wiring.within_gb_s / speed) - 1, _most_by_cards(wiring, speed))
        if wiring.nodes == 1 and count < most:
            continue  # on one node it has to draw from all alike
        if count > best.count or count * speed > best.count * best.inter:
            best = Channels(count, speed, speed)
        if count == most:
            break
    inter = best.inter
    for speed in reversed([speed for speed in speeds if speed > best.inter]):
        if inter >= 2 * best.intra or not _fits_cards(wiring, best.count, speed):
            break
        inter = speed
    return Channels(best.count, best.intra, inter)


def collnet_direct_channels(wiring: Wiring) -> Channels:
    """Of switches that reduce: a channel for each GPU that has a card."""
    speeds = _speeds(wiring)
    count = max(1, min(_MOST_DIRECT_HEADS, wiring.local, wiring.cards))
    inter = next((speed for speed in speeds if _fits(wiring, count, speed)), speeds[-1])
    return Channels(count, _faster_within(wiring, count, inter), inter)


def _speeds(wiring: Wiring) -> Sequence[float]:
    """Those that a channel may have, fastest first."""
    architecture = wiring.machine.architecture
    if wiring.nodes == 1:
        tried, most = INTRA_SPEEDS[architecture], wiring.within_gb_s
    else:
        tried, most = INTER_SPEEDS[architecture], wiring.card_gb_s
    return [speed for speed in tried if speed <= most] or tried[-1:]


def _most_by_links(wiring: Wiring, speed: float) -> int:
    """Channels of this speed that the GPUs' links carry.

    On one node a ring passes each of them.
    """
    if wiring.nodes == 1:
        return int(wiring.within_gb_s / speed)
    return _most_chains(wiring, speed)


def _most_chains(wiring: Wiring, speed: float) -> int:
    """Of those that end in a node, where another GPU each time need not send to the next."""
    if wiring.local == 1:
        return _MOST_RINGS
    sending = int(wiring.within_gb_s / speed)
    return sending + sending // (wiring.local - 1)


def _most_by_cards(wiring: Wiring, speed: float) -> int:
    if wiring.nodes == 1:
        return _MOST_RINGS
    return wiring.cards * int(wiring.card_gb_s / speed)


def _room(wiring: Wiring, speed: float) -> int:
    return min(_most_by_links(wiring, speed), _most_by_cards(wiring, speed))


def _fits_cards(wiring: Wiring, count: int, speed: float) -> bool:
    return count <= _most_by_cards(wiring, speed)


def _fits(wiring: Wiring, count: int, speed: float) -> bool:
    return count <= _room(wiring, speed)


def _twice(rings: Channels, wiring: Wiring) -> Channels:
    """`ncclTopoDupChannels`: two channels of half the speed in the place of each that is fast."""
    slow = rings.intra < 25.0
    after_ampere = wiring.machine.architecture in ("hopper", "blackwell")
    many = after_ampere and rings.intra < 50.0 and rings.count > 4
    count = min(2 * rings.count, _MOST_RINGS)
    if slow or many or count == rings.count:
        return rings
    return Channels(count, rings.intra / 2, rings.inter / 2)


def _faster_within(wiring: Wiring, count: int, inter: float) -> float:
    """The speed of a tree within a node: raised until it is twice that between, or fits no more."""
    architecture = wiring.machine.architecture
    tried = INTRA_SPEEDS if wiring.nodes == 1 else INTER_SPEEDS
    intra = inter
    for speed in reversed([speed for speed in tried[architecture] if speed > inter]):
        if intra >= 2 * inter or count > _most_chains(wiring, speed):
            break
        intra = speed
    return intra
