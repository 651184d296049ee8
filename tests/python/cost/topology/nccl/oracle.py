"""A second reading of NCCL 2.30.7's tuner, apart from the package's, which it is compared with.

It follows the source's own order: the search lays channel after channel over links that have so
much left, ``ncclTopoTuneModel`` fills two arrays in one loop, ``ncclTopoGetAlgoTime`` reads them.
(The package works the channels out in closed form, and a line for each algorithm.) Its figures were
taken from tuning.cc and search.cc of tag v2.30.7-1 a second time, not from the package's tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from shardprop.cost.topology.nccl import Architecture

VOLTA, AMPERE, HOPPER, BLACKWELL = range(4)
ARCHITECTURES: tuple[Architecture, ...] = ("volta", "ampere", "hopper", "blackwell")
TREE, RING, DIRECT, CHAIN, NVLS, NVLS_TREE, PAT = range(7)
LL, LL128, SIMPLE = range(3)
NVLINK, PCI, NET = range(3)

BASE: list[list[float]] = [
    [6.8, 14, 8.4],
    [6.6, 14, 8.4],
    [0] * 3,
    [0] * 3,
    [0] * 3,
    [0] * 3,
    [8] * 3,
]
HOPS: list[list[list[float]]] = [
    [[0.6, 1.25, 4], [0.6, 1.9, 3.4], [0, 0, 3.7], [0, 0, 2.8], [0, 0, 25], [0, 0, 25], [0, 0, 4]],
    [[1, 1.9, 4], [1, 2.5, 5.7], [0, 0, 3.7], [0, 0, 2.8], [0] * 3, [0] * 3, [0, 0, 4]],
    [[5, 8.5, 14], [2.7, 4, 14], [0, 0, 31], [0, 0, 30], [0, 0, 18], [0, 0, 20.9], [0, 0, 14]],
]
LL_MAX: list[list[float]] = [[39, 39, 20.4], [87.7, 22.5, 19], [141, 45, 35], [282, 90, 70]]
RING_LL128_MAX: list[list[float]] = [[20] * 3, [20] * 3, [36.7] * 3, [40] * 3]
TREE_LL128_MAX: list[list[float]] = [[20] * 3, [20] * 3, [36.7, 36.7, 29], [55.6, 31.67, 20]]
TREE_MAX: list[list[float]] = [[26.5, 18.5, 10], [24, 23.6, 17.8], [38.7, 41.4, 36], [70, 42.8, 24]]
NVLS_TREE_MAX: list[list[float]] = [
    [26.5, 18.5, 10],
    [24, 23.6, 17.8],
    [0, 57.7, 45.5],
    [0, 96, 80],
]
EFFICIENCY: list[float] = [0, 0, 0.85, 0.74]
# Tenths, from 64 bytes on.
FACTORS = [
    [10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5, 4, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, 10],
    [10, 10, 10, 10, 10, 9, 8, 8, 8, 7, 6, 6, 6, 6, 6, 6, 8, 9, 9, 9, 9, 10, 10, 10],
    [9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 6, 7, 8, 7, 7, 8, 9, 9, 9],
]
OLD: list[float] = [40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3]
INTRA: list[list[float]] = [
    OLD,
    OLD,
    [60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3],
    [90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18],
]
OLD_INTER: list[float] = [
    48,
    30,
    28,
    24,
    20,
    18,
    15,
    12,
    10,
    9,
    7,
    6,
    5,
    4,
    3,
    2.4,
    1.2,
    0.24,
    0.12,
]
HOPPER_INTER: list[float] = [
    48,
    45,
    42,
    40,
    30,
    24,
    22,
    20,
    17.5,
    15,
    12,
    6,
    3,
    2.4,
    1.2,
    0.24,
    0.12,
]
INTER: list[list[float]] = [OLD_INTER, OLD_INTER, HOPPER_INTER]
INTER.append(
    [96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12]
)


@dataclass
class Graph:
    """``ncclTopoGraph``."""

    channels: int = 0
    intra: float = 0.0
    inter: float = 0.0


@dataclass
class Cluster:
    """Nodes on which a group has `local` ranks each."""

    arch: int
    nodes: int
    local: int
    within: float
    cards: int = 0
    card: float = 0.0
    link: int = NVLINK
    nvswitch: bool = True
    amd: bool = False
    sharp: bool = False

    @cached_property
    def graphs(self) -> dict[int, Graph]:
        """By algorithm."""
        ring = self._ring()
        tree = self._tree(ring.channels)
        nvls = self._nvls() if self.has_nvls else Graph()
        direct = self._tree(max(1, min(8, self.local, self.cards))) if self.nodes > 1 else Graph()
        return {
            RING: ring,
            TREE: tree,
            PAT: tree,
            CHAIN: tree,
            NVLS: nvls,
            NVLS_TREE: nvls,
            DIRECT: direct,
        }

    @cached_property
    def tuned(self) -> dict[str, list[tuple[int, int, float, float]]]:
        """What ``ncclTopoTuneModel`` fills, without what is disabled."""
        filled = {}
        for coll in ("all_gather", "reduce_scatter", "all_reduce"):
            each = [(a, p, *self.model(coll, a, p)) for a in range(7) for p in range(3)]
            filled[coll] = [(a, p, bw, lat) for a, p, bw, lat in each if bw > 0]
        return filled

    @property
    def has_nvls(self) -> bool:
        return self.nvswitch and self.arch >= HOPPER

    @property
    def ranks(self) -> int:
        return self.nodes * self.local

    # --- search.cc ----------------------------------------------------------------------------

    def _speeds(self) -> list[float]:
        if self.nodes == 1:
            return [float(s) for s in INTRA[self.arch]]
        return [float(s) for s in INTER[self.arch]]

    def _laid(self, most: int, intra: float, inter: float, *, kind: int) -> int:
        """How many channels find room, each begun at the next GPU."""
        links = [self.within] * self.local
        cards = [self.card] * self.cards
        for number in range(most):
            use = [0.0] * self.local
            first = number % self.local
            if kind == NVLS:
                use = [intra] * self.local
                use[first] *= 2
            elif self.local > 1:
                sends = self.local if kind == RING and self.nodes == 1 else self.local - 1
                for step in range(sends):
                    use[(first + step) % self.local] = intra
            if any(u > left for u, left in zip(use, links, strict=True)):
                return number
            if self.nodes > 1:
                nearest = max(range(self.cards), key=lambda card: cards[card])
                if cards[nearest] < inter:
                    return number
                cards[nearest] -= inter
            links = [left - u for u, left in zip(use, links, strict=True)]
        return most

    def _ring(self) -> Graph:
        speeds, best = self._speeds(), Graph()
        limit = self.within if self.nodes == 1 else self.card
        index = next(i for i, s in enumerate(speeds) if s <= limit or i == len(speeds) - 1)
        while index < len(speeds):
            speed = speeds[index]
            if best.channels and speed / best.inter <= 0.49:
                break
            count = self._laid(32, speed, speed, kind=RING)
            if count * speed > best.channels * best.intra:
                best = Graph(count, speed, speed)
            if best.channels * best.inter >= self.within:
                break
            index += 1
        if best.channels == 0:
            return Graph(1, speeds[-1], speeds[-1])
        doubles = best.intra >= 25
        doubles &= not (self.arch >= HOPPER and best.intra < 50 and best.channels > 4)
        if doubles and best.channels < 32:
            times = math.ceil(min(2 * best.channels, 32) / best.channels)
            count = min(2 * best.channels, 32)
            best = Graph(count, best.intra / times, best.inter / times)
        for speed in reversed(speeds):
            faster = limit >= speed > best.inter
            if faster and self._laid(best.channels, speed, speed, kind=RING) == best.channels:
                best = Graph(best.channels, speed, speed)
        return best

    def _tree(self, count: int) -> Graph:
        speeds = self._speeds()
        fits = [s for s in speeds if self._laid(count, s, s, kind=TREE) == count]
        start = fits[0] if fits else speeds[-1]
        found = Graph(count, start, start)
        for speed in reversed(speeds):
            if speed > found.intra and found.intra < 2 * found.inter:
                if self._laid(count, speed, found.inter, kind=TREE) == count:
                    found.intra = speed
                else:
                    break
        return found

    def _nvls(self) -> Graph:
        speeds, best = self._speeds(), Graph()
        limit = self.within if self.nodes == 1 else self.card
        most = min(32, self.local)
        for speed in speeds:
            if speed > limit:
                continue
            if best.channels and speed / best.inter <= 0.49:
                break
            count = self._laid(most, speed, speed, kind=NVLS)
            if self.nodes == 1 and count < most:
                continue
            if count > best.channels or count * speed > best.channels * best.inter:
                best = Graph(count, speed, speed)
            if count == most:
                break
        for speed in reversed(speeds):
            if speed > best.inter and best.inter < 2 * best.intra:
                if self._laid(best.channels, best.intra, speed, kind=NVLS) < best.channels:
                    break
                best.inter = speed
        return best

    # --- tuning.cc ----------------------------------------------------------------------------

    def us(self, coll: str, n: int) -> float:
        """``ncclTopoGetAlgoTime`` of the algorithm and protocol that take least."""
        return min(time for time in self.times(coll, n).values() if time >= 0)

    def times(self, coll: str, n: int) -> dict[tuple[int, int], float]:
        times = {}
        for a, p, bw, lat in self.tuned[coll]:
            k = int(math.log2(n >> 6)) if n >= 64 else -1
            if a == TREE and 0 <= k < 23:
                bw *= FACTORS[p][k] / 10
            if a == NVLS_TREE and 0 <= k < 24 and self.arch == BLACKWELL:
                bw *= FACTORS[p][k] / 10
            spread = self.nodes > 1 and coll == "all_reduce"
            each = n // (self._compute_channels() * self.ranks)
            if a == RING and p == SIMPLE and spread and each >= 64:
                lat *= 1.9 if self.arch < AMPERE else 1.4
            times[a, p] = lat + n / (1000 * bw)
        return times

    def _compute_channels(self) -> int:
        count = min(64, 2 * self.graphs[RING].channels)
        if self.arch >= HOPPER and self.nodes > 1 and self.graphs[RING].intra > 45 and count < 16:
            count *= 2
        return count

    def model(self, coll: str, a: int, p: int) -> tuple[float, float]:
        """``ncclTopoTuneModel``: bandwidth (0: disabled) and latency."""
        reduce_all = coll == "all_reduce"
        if not reduce_all and a in (TREE, CHAIN, NVLS_TREE, DIRECT):
            return 0, 0  # (collnet direct gathers only where the network's plugin can)
        if reduce_all and a == PAT:
            return 0, 0
        if a not in (RING, TREE) and p != SIMPLE:
            return 0, 0
        if a == PAT and (self.local > 1 or self.nodes < 2):
            return 0, 0
        if a in (NVLS, NVLS_TREE) and not self.has_nvls:
            return 0, 0
        if a == NVLS_TREE and self.nodes == 1:
            return 0, 0
        if a == NVLS and self.nodes > 1 and not (self.sharp and reduce_all):
            return 0, 0
        if a in (DIRECT, CHAIN) and not (self.sharp and self.nodes > 1 and self.local <= 8):
            return 0, 0
        if a == DIRECT and not self.nvswitch:
            return 0, 0
        if p == LL128 and self.link == PCI and self.local > 1:
            return 0, 0
        return self._bandwidth(reduce_all, a, p), self._latency(reduce_all, a, p)

    def _bandwidth(self, reduce_all: bool, a: int, p: int) -> float:
        graph, column = self.graphs[a], min(self.nodes, 3) - 1
        steps = (2 if reduce_all else 1) * (self.ranks - 1)
        low = LL_MAX[self.arch if self.nodes == 1 else int(self.amd)][column]
        speed = graph.intra if self.nodes <= 2 or a in (DIRECT, CHAIN) else graph.inter
        if a in (NVLS, NVLS_TREE):
            if graph.channels < 2:
                return 0
            speed = graph.intra * EFFICIENCY[self.arch] * (graph.channels - 1) / graph.channels
            speed *= 2 if reduce_all else (self.local - 1) / self.local
            beyond = graph.inter * (2 if self.nodes <= 2 and a == NVLS_TREE else 1)
            speed = min(speed, beyond)
            if a == NVLS_TREE:
                speed = min(speed, NVLS_TREE_MAX[self.arch][column])
        bus = graph.channels * speed
        if a == RING and p == LL:
            bus = min(low, bus / 2)
        if a == RING and p == LL128:
            bus = min(bus * 0.92, graph.channels * RING_LL128_MAX[self.arch][column])
        if a == TREE:
            bus = min(bus * 0.92, graph.channels * TREE_MAX[self.arch][column])
            if p == LL:
                bus = min(bus / 3.8, low)
            if p == LL128:
                bus *= 7 / 9 if self.nodes == 1 else 120 / 128
                bus = min(bus, graph.channels * TREE_LL128_MAX[self.arch][column])
            if self.nodes > 1 and (self.arch >= HOPPER or self.local == 1):
                bus *= 0.85  # the pattern of the search is the plain tree
        if a == PAT:
            bus *= 0.75
        if a == DIRECT:
            factor = self.local / graph.channels
            factor -= (factor - 1) / 2
            bus /= factor
            bus *= 0.85 if self.arch >= HOPPER else 1
        if a == RING or reduce_all:
            bus *= self.ranks / steps if a in (RING, NVLS, NVLS_TREE) else 0.5
        return bus

    def _latency(self, reduce_all: bool, a: int, p: int) -> float:
        lat, inside = BASE[a][p], HOPS[self.link][a][p]
        beyond = HOPS[NET][TREE if self.local == 1 else a][p]
        log, more = int(math.log2(self.nodes)), self.local - 1
        if a == RING:
            if self.nodes > 1:
                inside = max(inside, (2.0 if self.amd else 1.0) * (3 if p == SIMPLE else 1))
            steps, far = self.ranks - 1, self.nodes - 1
            return lat + (2 if reduce_all else 1) * ((steps - far) * inside + far * beyond)
        if a == TREE:
            return lat + 2 * (more * inside + log * beyond)
        if a == DIRECT:
            return lat + 2 * (min(1, more) * inside + more * 0.4) + beyond
        if a == CHAIN:
            return lat + 2 * more * inside + beyond
        if a == NVLS:
            return inside + (beyond if self.nodes > 1 else 0)
        if a == NVLS_TREE:
            return lat + inside + 2 * log * beyond
        return lat + log * beyond / 3.5 + self.ranks * 2.8
