"""The figures of NCCL's tuner: ``ncclTunerConstantsDefaults`` and its neighbours.

All from NCCL 2.30.7 (https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/graph/tuning.cc), speeds
from search.cc beside it. Microseconds, and GB/s of 1e9 bytes a second. What the tuner has by number
of nodes has three entries: for one node, for two, for more.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

__all__ = [
    "BASE_US",
    "HOP_US",
    "INTER_SPEEDS",
    "INTRA_SPEEDS",
    "LL_BETWEEN_GB_S",
    "LL_WITHIN_GB_S",
    "NET_OVERHEAD_US",
    "NVLS_EFFICIENCY",
    "NVLS_TREE_CHANNEL_GB_S",
    "RING_LL128_CHANNEL_GB_S",
    "TREE_CHANNEL_GB_S",
    "TREE_FACTORS",
    "TREE_LL128_CHANNEL_GB_S",
    "Algorithm",
    "Protocol",
]


class Algorithm(Enum):
    """How the ranks pass data on, by NCCL's names."""

    TREE = "tree"
    RING = "ring"
    COLLNET_DIRECT = "collnet direct"
    COLLNET_CHAIN = "collnet chain"
    NVLS = "nvls"
    NVLS_TREE = "nvls tree"
    PAT = "pat"


class Protocol(Enum):
    """How a rank learns that data has come: flags in each 8 or 128 bytes, or a fence for all."""

    LL = "LL"
    LL128 = "LL128"
    SIMPLE = "Simple"


# For LL, LL128 and Simple.
ByProtocol = tuple[float, float, float]
ByNodes = tuple[float, float, float]

_A = Algorithm

# `baseLatencies`: whatever is sent, however far.
BASE_US: Mapping[Algorithm, ByProtocol] = {
    _A.TREE: (6.8, 14.0, 8.4),
    _A.RING: (6.6, 14.0, 8.4),
    _A.COLLNET_DIRECT: (0.0, 0.0, 0.0),
    _A.COLLNET_CHAIN: (0.0, 0.0, 0.0),
    _A.NVLS: (0.0, 0.0, 0.0),
    _A.NVLS_TREE: (0.0, 0.0, 0.0),
    _A.PAT: (8.0, 8.0, 8.0),
}

# `hwLatencies`: a step from rank to rank, by what carries it.
HOP_US: Mapping[str, Mapping[Algorithm, ByProtocol]] = {
    "nvlink": {
        _A.TREE: (0.6, 1.25, 4.0),
        _A.RING: (0.6, 1.9, 3.4),
        _A.COLLNET_DIRECT: (0.0, 0.0, 3.7),
        _A.COLLNET_CHAIN: (0.0, 0.0, 2.8),
        _A.NVLS: (0.0, 0.0, 25.0),
        _A.NVLS_TREE: (0.0, 0.0, 25.0),
        _A.PAT: (0.0, 0.0, 4.0),
    },
    "pcie": {
        _A.TREE: (1.0, 1.9, 4.0),
        _A.RING: (1.0, 2.5, 5.7),
        _A.COLLNET_DIRECT: (0.0, 0.0, 3.7),
        _A.COLLNET_CHAIN: (0.0, 0.0, 2.8),
        _A.NVLS: (0.0, 0.0, 0.0),
        _A.NVLS_TREE: (0.0, 0.0, 0.0),
        _A.PAT: (0.0, 0.0, 4.0),
    },
    "network": {
        _A.TREE: (5.0, 8.5, 14.0),
        _A.RING: (2.7, 4.0, 14.0),
        _A.COLLNET_DIRECT: (0.0, 0.0, 31.0),
        _A.COLLNET_CHAIN: (0.0, 0.0, 30.0),
        _A.NVLS: (0.0, 0.0, 18.0),
        _A.NVLS_TREE: (0.0, 0.0, 20.9),
        _A.PAT: (0.0, 0.0, 14.0),
    },
}

# `getNetOverhead`: what the processor takes to post a message.
NET_OVERHEAD_US: Mapping[str, float] = {"intel": 1.0, "amd": 2.0}

# `llMaxBws`: all that protocol LL reaches. On one node the GPU tells, on several the processor
# (for two nodes, and for more).
LL_WITHIN_GB_S: Mapping[str, float] = {
    "volta": 39.0,
    "ampere": 87.7,
    "hopper": 141.0,
    "blackwell": 282.0,
}
LL_BETWEEN_GB_S: Mapping[str, tuple[float, float]] = {"intel": (39.0, 20.4), "amd": (22.5, 19.0)}

# What one channel reaches: `perChMaxRingLL128Bws`, `perChMaxTreeLL128Bws`, `perChMaxTreeBws`,
# `perChMaxNVLSTreeBws`.
RING_LL128_CHANNEL_GB_S: Mapping[str, ByNodes] = {
    "volta": (20.0, 20.0, 20.0),
    "ampere": (20.0, 20.0, 20.0),
    "hopper": (36.7, 36.7, 36.7),
    "blackwell": (40.0, 40.0, 40.0),
}
TREE_LL128_CHANNEL_GB_S: Mapping[str, ByNodes] = {
    "volta": (20.0, 20.0, 20.0),
    "ampere": (20.0, 20.0, 20.0),
    "hopper": (36.7, 36.7, 29.0),
    "blackwell": (55.6, 31.67, 20.0),
}
TREE_CHANNEL_GB_S: Mapping[str, ByNodes] = {
    "volta": (26.5, 18.5, 10.0),
    "ampere": (24.0, 23.6, 17.8),
    "hopper": (38.7, 41.4, 36.0),
    "blackwell": (70.0, 42.8, 24.0),
}
NVLS_TREE_CHANNEL_GB_S: Mapping[str, ByNodes] = {
    "volta": (26.5, 18.5, 10.0),
    "ampere": (24.0, 23.6, 17.8),
    "hopper": (0.0, 57.7, 45.5),
    "blackwell": (0.0, 96.0, 80.0),
}

# `nvlsEfficiency`
NVLS_EFFICIENCY: Mapping[str, float] = {
    "volta": 0.0,
    "ampere": 0.0,
    "hopper": 0.85,
    "blackwell": 0.74,
}

# `treeCorrectionFactor`: the part of its bandwidth that a tree reaches, by the power of two that a
# message has come to: from 64 bytes, from 128, and so on.
# fmt: off
TREE_FACTORS: Mapping[Protocol, tuple[float, ...]] = {
    Protocol.LL: (
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5,
        0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0,
    ),
    Protocol.LL128: (
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6,
        0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0,
    ),
    Protocol.SIMPLE: (
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5,
        0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9,
    ),
}

# `speedArrayIntra` and its siblings of search.cc: the speeds of a channel that are tried, in order.
_EARLIER_INTRA = (40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0)
_EARLIER_INTER = (
    48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0,
    7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2, 0.24, 0.12,
)
INTRA_SPEEDS: Mapping[str, tuple[float, ...]] = {
    "volta": _EARLIER_INTRA,
    "ampere": _EARLIER_INTRA,
    "hopper": (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0),
    "blackwell": (90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0),
}
INTER_SPEEDS: Mapping[str, tuple[float, ...]] = {
    "volta": _EARLIER_INTER,
    "ampere": _EARLIER_INTER,
    "hopper": (
        48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5,
        15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12,
    ),
    "blackwell": (
        96.0, 86.0, 80.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0,
        20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12,
    ),
}
# fmt: on
