"""A program of four ranks that calibrates its own mesh; rank 0 prints what it saw."""

from __future__ import annotations

import json
import os
import sys
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from shardprop.cost.calibration import Settings, calibrate, measuring
from shardprop.cost.calibration.timing import medians_us


def main() -> None:
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("dp", "pp", "tp"))
    mesh["dp", "tp"]._flatten()
    with mock.patch.object(measuring, "medians_us", wraps=medians_us) as timed:
        topology = calibrate(mesh, Settings(sizes=(64, 256), repetitions=1, warmups=1)).topology
    of_ranks: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(of_ranks, topology)
    model = topology.on(mesh, [(0, 2)])
    if dist.get_rank() == 0:
        print(
            json.dumps(
                {
                    "taking turns": [len(call.args[1]) for call in timed.call_args_list],
                    "equal": all(other == topology for other in of_ranks),
                    "entries": [group.mesh_dims for group in topology.groups],
                    "groups": [group.mesh_dims for group in model.groups],
                }
            )
        )
    # A rank that leaves while another still talks to it takes that one down with it.
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    # gloo's threads may outlive their group, and abort a process that ends in order ("terminate
    # called without an active exception").
    os._exit(0)


if __name__ == "__main__":
    main()
