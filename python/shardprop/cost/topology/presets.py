"""Topologies of well-known machines; docs/cost-models.md tells where each figure is from."""

from __future__ import annotations

from collections.abc import Mapping

from .compute import Compute
from .groups import CostSource
from .links import Link, PerCollective
from .nccl import Machine
from .topology import Between, Memory, Node, Topology
from .torch_model import TorchTopology

__all__ = ["PRESETS"]

_NCCL = "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/graph"

# Of what NCCL's tuner has no estimate for, all-to-alls and permutations: those of its ring with the
# LL protocol, to start (6.6 us), for a step over NVLink (0.6) or PCIe (1.0), and over the network.
_LAUNCH_US, _NVLINK_US, _PCIE_US, _NETWORK_US = 6.6, 0.6, 1.0, 2.7

# All-reduces of 8 bytes on 16 nodes of H100s took 62 us where the tuner expects 55.2: 6.8 us more
# for 15 further nodes.
_SYNC_US_PER_NODE = 0.45

# What the shortest local copies take on an H100 when another one follows: 1.0 to 1.5 us. Of the
# others an estimate.
_GPU_KERNEL_US = 1.4


_FROM_NCCL = (
    f"all-gathers, reduce-scatters, all-reduces: read from NCCL 2.30.7, {_NCCL}/tuning.cc and "
    "search.cc, not measured"
)
_LATENCIES = f"latencies of the others: ring, LL protocol, {_NCCL}/tuning.cc"
_SYNC = (
    f"sync_us_per_node: {_SYNC_US_PER_NODE} us, what all-reduces of 8 bytes on 16 nodes of H100s "
    "took beyond the tuner's estimate, https://github.com/NVIDIA/nccl/issues/1469"
)
_KERNEL = f"kernel_us: an H100's {_GPU_KERNEL_US} us, not measured here"
_MEASURED = (
    "memory: local copies of 4 KiB take 1.0 to 1.5 us, of 128 MiB and more 2,370 to 2,970 GB/s "
    "(peak 3,350); measured, H100 80GB HBM3, torch 2.11, bench/gpu_kernels.py",
    "efficiency: matrix products of 4,096 and 8,192 squared reach 0.70 to 0.78 of the peak in "
    "bfloat16, 0.76 to 0.78 in float32, 0.66 to 0.72 in float8, 0.93 in float64; measured likewise",
)


def _nvlink_node(
    name: str,
    links: int,
    link_gb_s: float,
    network_gb_s: float,
    hbm_gb_s: float,
    machine: Machine,
    compute: Compute,
    *sources: str,
) -> Topology:
    """Eight GPUs on NVSwitch, each with a network card of its own."""
    return Topology(
        name=name,
        launch_us=_LAUNCH_US,
        memory=Memory(_GPU_KERNEL_US, hbm_gb_s),
        node=Node(
            PerCollective.same(Link(_NVLINK_US, links * link_gb_s)),
            Between(8, PerCollective.same(Link(_NETWORK_US, network_gb_s))),
            machine,
        ),
        sources=(
            _FROM_NCCL,
            _LATENCIES,
            f"NVLink: {links} links of {link_gb_s} GB/s that NCCL reckons with, {_NCCL}/topo.h",
            _SYNC,
            *sources,
        ),
        compute=compute,
    )


_A100 = _nvlink_node(
    "a100-nvlink",
    12,
    20.0,
    25.0,
    2039.0,
    Machine("ampere", cpu="amd", sync_us_per_node=_SYNC_US_PER_NODE),
    Compute({"float64": 19.5, "float32": 19.5, "bfloat16": 312.0, "float16": 312.0, "int8": 624.0}),
    "network: HDR InfiniBand, 200 Gb/s, one card for each GPU, as in a DGX A100; peak",
    "memory: 2,039 GB/s, A100 80GB SXM; peak, "
    "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/"
    "nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
    "compute: the same data sheet, dense peaks; float64 by tensor cores, float32 without TF32",
    _KERNEL,
)

_H100 = _nvlink_node(
    "h100-nvlink",
    18,
    20.6,
    50.0,
    2700.0,
    Machine("hopper", sync_us_per_node=_SYNC_US_PER_NODE),
    Compute(
        {
            "float64": 67.0,
            "float32": 67.0,
            "bfloat16": 989.0,
            "float16": 989.0,
            "float8_e4m3fn": 1979.0,
            "int8": 1979.0,
        },
        efficiency=0.75,
    ),
    "network: NDR InfiniBand, 400 Gb/s, one card for each GPU, as in a DGX H100; peak",
    *_MEASURED,
    "compute: H100 SXM, https://www.nvidia.com/en-us/data-center/h100/, dense peaks (half of those "
    "with sparsity); float64 by tensor cores, float32 without TF32",
)

_B200 = _nvlink_node(
    "b200-nvlink",
    18,
    40.1,
    50.0,
    8000.0,
    Machine("blackwell", sync_us_per_node=_SYNC_US_PER_NODE),
    Compute(
        {
            "float64": 37.0,
            "float32": 75.0,
            "bfloat16": 2250.0,
            "float16": 2250.0,
            "float8_e4m3fn": 4500.0,
            "int8": 4500.0,
        }
    ),
    "network: NDR InfiniBand, 400 Gb/s, one ConnectX-7 for each GPU, as in a DGX B200; peak",
    "memory: 8 TB/s, B200 SXM; peak, https://www.nvidia.com/en-us/data-center/dgx-b200/",
    "compute: NVIDIA Blackwell data sheet, one GPU of an HGX B200, dense peaks (half of those with "
    "sparsity); float32 without TF32",
    _KERNEL,
)

# Eight GPUs without NVLink, on the root complexes of AMD processors, and one network card for all.
_A100_PCIE = Topology(
    name="a100-pcie",
    launch_us=_LAUNCH_US,
    memory=Memory(_GPU_KERNEL_US, 1935.0),
    node=Node(
        PerCollective.same(Link(_PCIE_US, 16.0)),
        Between(8, PerCollective.same(Link(_NETWORK_US, 25.0 / 8))),
        Machine(
            "ampere",
            link="pcie",
            cards=1,
            cpu="amd",
            sync_us_per_node=_SYNC_US_PER_NODE,
        ),
    ),
    sources=(
        _FROM_NCCL,
        _LATENCIES,
        f"PCIe: 16 GB/s, what NCCL reckons with between an AMD processor's parts, {_NCCL}/topo.h",
        _SYNC,
        "network: HDR InfiniBand, 200 Gb/s, one card for eight GPUs; peak",
        "memory: 1,935 GB/s, A100 80GB PCIe; peak, "
        "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/"
        "nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
        "compute: the same data sheet, dense peaks; float64 by tensor cores, float32 without TF32",
        _KERNEL,
    ),
    compute=_A100.compute,
)

# Gloo's collectives differ more than its links do, so each has figures of its own.
_GLOO = Topology(
    name="cpu-gloo",
    launch_us=50.0,
    memory=Memory(kernel_us=16.0, bandwidth_gb_s=25.0),
    node=Node(
        PerCollective(
            all_gather=Link(670.0, 0.6),
            reduce_scatter=Link(900.0, 0.38),
            all_reduce=Link(500.0, 0.8),
            all_to_all=Link(700.0, 0.5),
            permute=Link(750.0, 1.0),
        )
    ),
    all_to_all_gathers=True,
    compute=Compute({"float64": 0.045, "float32": 0.09, "bfloat16": 0.2, "float16": 0.0007}),
    sources=(
        "shardprop's calibration of a 2x2 mesh of gloo processes that share 2 busy cores (AMD "
        "EPYC, loopback), groups of 2 and 4 ranks, least of 25 repetitions: good for the order of "
        "magnitude; calibrate your own",
        "compute: torch's mm of 256 and 512 squared on one thread of the same machine, the best in "
        "five seconds, for which float16 has no fast kernel there: good for the order of magnitude",
    ),
)

PRESETS: Mapping[str, CostSource] = {
    "torch": TorchTopology(),
    "a100-nvlink": _A100,
    "h100-nvlink": _H100,
    "b200-nvlink": _B200,
    "a100-pcie": _A100_PCIE,
    "cpu-gloo": _GLOO,
}
