"""Preset ``torch``: torch's prices of collectives, as a topology that policy ``optimal`` can take.

Policy ``torch`` takes them in the core, ``csrc/core/torch_plan/transition.h``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ... import _torch
from ..._torch import DeviceMesh
from ..cost_model import COLLECTIVES, CostModel, GroupCosts, LinearPrice
from .groups import MeshDims, groups_of, ranks_of
from .links import hops

__all__ = ["TorchTopology"]

# Of `allgather_cost` and its siblings in torch/distributed/tensor/_collective_utils.py.
_LAUNCH_US = 6.6

# Of `_compute_placement_transition_cost`, there to make torch favour an all-gather.
_ALL_TO_ALL_PENALTY_US = 1.0

# torch calls 1024 ** 3 bytes a GB.
_BYTES_OF_GB = 1024**3


@dataclass(frozen=True)
class TorchTopology:
    """torch's ring model as it is: A100 low-latency constants, no local costs.

    Whatever the devices are, as torch has it: 0.6 us a hop and 87.7 GB/s for mesh dims within a
    host, 2.7 us and 22 percent of that for those beyond. torch prices no permutation; one hop is
    assumed. Nor does it price flattened groups when it chooses; the largest latency and the least
    bandwidth of the mesh dims are assumed.
    """

    name: str = "torch"

    def on(self, mesh: DeviceMesh, flattened: Sequence[tuple[int, ...]] = ()) -> CostModel:
        """The costs on one mesh.

        Raises:
            ShardpropError: a flattened group is not one of ascending mesh dims.
        """
        wanted = groups_of(mesh, flattened)
        topology = _torch.mesh_topology(mesh)
        latency: list[float] = topology.mesh_dim_latency
        bandwidth: list[float] = topology.mesh_dim_bandwidth

        def lines(dims: MeshDims) -> tuple[LinearPrice, ...]:
            ranks = ranks_of(mesh, dims)
            hop_us = max(latency[dim] for dim in dims)
            us_per_byte = 1e6 / (_BYTES_OF_GB * min(bandwidth[dim] for dim in dims))
            return tuple(
                LinearPrice(_fixed_us(collective, ranks, hop_us), us_per_byte)
                for collective in COLLECTIVES
            )

        return CostModel(
            sizes=tuple(mesh.shape),
            groups=tuple(GroupCosts(dims, lines(dims)) for dims in wanted),
            kernel_us=0.0,
            memory_us_per_byte=0.0,
        )


def _fixed_us(collective: str, ranks: int, hop_us: float) -> float:
    penalty = _ALL_TO_ALL_PENALTY_US if collective == "all_to_all" else 0.0
    return _LAUNCH_US + hops(collective, ranks) * hop_us + penalty
