"""FSDP2 over tensor parallelism on a 2-D mesh: where shardprop decides, and what it takes.

Parameters are sharded twice, over ``dp`` by FSDP and over ``tp`` by the parallel plan; so gradient
clipping and the optimizer work on DTensors of a 2-D mesh, for which torch prices every combination
of rows. The losses with and without shardprop have to be equal.

Run it: ``python examples/fsdp2_tensor_parallel.py`` (rank 0 of 8 ranks that are not there), or
``torchrun --nproc-per-node 4 examples/fsdp2_tensor_parallel.py`` on gloo.
"""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import shardprop

DIM, HIDDEN, LAYERS = 64, 256, 4


def build(mesh: DeviceMesh) -> nn.Module:
    """Residual blocks of two linear layers, sharded over both mesh dims."""
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.Linear(DIM, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, DIM))
        for _ in range(LAYERS)
    ]
    model = nn.Sequential(*blocks)
    for block in blocks:
        parallelize_module(block, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    return model


def train(mesh: DeviceMesh, steps: int = 3) -> tuple[list[float], float]:
    """Losses, and the seconds of the first step, in which everything is decided."""
    model = build(mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
    torch.manual_seed(1 + mesh["dp"].get_local_rank())  # each data-parallel rank its own batch
    inputs, targets = torch.randn(2, 16, DIM)
    losses, first = [], 0.0
    for step in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        first = first if step else time.perf_counter() - start
    return losses, first


def main() -> None:
    """Trains by torch alone and with shardprop."""
    shape = (dist.get_world_size() // 2, 2)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    by_torch, seconds_of_torch = train(mesh)
    with shardprop.enabled(strict=True):
        losses, seconds = train(mesh)
    if losses != by_torch:
        raise SystemExit(f"Losses differ: {losses} with shardprop, {by_torch} without.")
    if dist.get_rank() == 0:
        stats = shardprop.stats()
        print("losses", *(f"{loss:.4f}" for loss in losses), "(the same with torch alone)")
        print(
            f"first step: {seconds_of_torch:.2f} s by torch alone, {seconds:.2f} s with shardprop"
        )
        print(f"of it, {stats.decisions} decisions in {stats.seconds * 1e3:.1f} ms")


if __name__ == "__main__":
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("fake", rank=0, world_size=8)
    main()
    dist.destroy_process_group()
