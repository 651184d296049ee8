"""Sequence parallelism in plain DTensor: norms and dropout on Shard(1), uneven shards too.

Nothing here is a torch style: the model states its layouts by `redistribute`.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from .check import check
from .outcome import Results
from .pool import Pool
from .world import mesh_of, seeded, spread, train

pytestmark = pytest.mark.slow

BATCH, DIM, HIDDEN = 2, 16, 32


class Block(nn.Module):
    """Norms and dropout on the sequence shard, the MLP column- then row-parallel."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, HIDDEN)
        self.down = nn.Linear(HIDDEN, DIM)
        self.out_norm = nn.RMSNorm(DIM)
        sharded: dict[str, Placement] = {
            "up.weight": Shard(0),
            "up.bias": Shard(0),
            "down.weight": Shard(1),
        }
        for path, module in self.named_modules():
            for name, weight in list(module.named_parameters(recurse=False)):
                placement = sharded.get(f"{path}.{name}", Replicate())
                module.register_parameter(name, nn.Parameter(spread(weight, mesh, placement)))

    def forward(self, x: Tensor) -> Tensor:
        assert isinstance(x, DTensor)
        normed = self.norm(x).redistribute(placements=[Replicate()])
        out = self.down(F.gelu(self.up(normed))).redistribute(placements=[Shard(1)])
        return self.out_norm(x + F.dropout(out, 0.5))


def run(*, length: int) -> Results:
    mesh = mesh_of((4,), ("tp",))
    blocks = nn.Sequential(Block(mesh), Block(mesh))
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.1, momentum=0.9, foreach=True)

    def loss(step: int) -> Tensor:
        x = spread(seeded(BATCH, length, DIM, seed=step), mesh, Shard(1))
        return (blocks(x) - x).square().sum()

    return train(blocks, optimizer, loss)


@pytest.mark.parametrize("length", [8, 10, 3], ids=["even", "uneven", "some ranks empty"])
def test_sequence_parallel_mlp(gloo: Pool, length: int) -> None:
    check(gloo.run(partial(run, length=length)), decisions=20)
