"""A program on a mesh, its parts and the mesh flattened, under one calibrated file."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Partial, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import shardprop

from .check import NONE
from .compare import Program
from .near import NearReport, compare_near
from .outcome import Results
from .pool import Pool
from .test_optimal import check_near
from .world import placed, seeded, spread, train

pytestmark = pytest.mark.slow

DIM = 8


@functools.cache
def flattened() -> DeviceMesh:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    mesh._flatten()
    return mesh


def on_meshes_of_every_kind() -> Results:
    """FSDP over TP: meshes of one dim, and parameters on both. Then a product on the flattened one,
    and redistributions on all dims."""
    mesh = flattened()
    tp: DeviceMesh = mesh["model"]
    mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))
    parallelize_module(mlp, tp, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(mlp, mesh=mesh["data"])
    optimizer = torch.optim.SGD(mlp.parameters(), lr=0.1, momentum=0.9)

    def loss(step: int) -> Tensor:
        place = dist.get_rank() // tp.size()
        return (mlp(seeded(4, DIM, seed=10 * step + place)) - 1).square().mean()

    results = train(mlp, optimizer, loss)
    x = spread(seeded(12, DIM), mesh["data", "model"]._flatten(), Shard(0)).requires_grad_()
    product = x @ x.t()
    product.square().mean().backward()
    pending = placed(seeded(12, DIM), mesh, Partial(), Partial())
    moved = pending.redistribute(placements=[Shard(0), Shard(0)])
    return {**results, "product": product.detach(), "gradient": x.grad, "moved": moved}


def compare_calibrated(file: Path, program: Program) -> NearReport:
    """Calibrate the mesh, on all ranks; rank 0 writes the file that all of them use."""
    found = shardprop.calibrate(
        flattened(), shardprop.CalibrationSettings(sizes=(256, 4096), repetitions=2, warmups=1)
    )
    if dist.get_rank() == 0:
        found.topology.save(file)
    dist.barrier()
    return compare_near(program, topology=file)


def test_one_calibrated_file_serves_all_meshes_of_a_program(gloo: Pool, tmp_path: Path) -> None:
    compare = functools.partial(compare_calibrated, tmp_path / "here.json")
    check_near(gloo.run(on_meshes_of_every_kind, compare), NONE)
    saved = shardprop.load_topology(tmp_path / "here.json")
    assert isinstance(saved, shardprop.Topology)
    named = [group.mesh_dims for group in saved.groups]
    assert named == [("data",), ("model",), ("data", "model")]
