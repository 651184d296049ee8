"""torchao's optimizers, whose states are tensors of 8 bits with scales, on sharded parameters."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

from tests.python.programs.outcome import Results
from tests.python.programs.world import mesh_of, seeded, train


def loss(model: nn.Module, step: int) -> torch.Tensor:
    made: torch.Tensor = model(seeded(4, 64, seed=step)).square().sum()
    return made


def trained(name: str) -> Results:
    """Steps of ``torchao.optim.NAME``; small parameters keep states of 32 bits."""
    import torchao.optim

    # It takes what was compiled for one kind of state for another, from the disk.
    torch.compiler.config.force_disable_caches = True
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
    fully_shard(model, mesh=mesh_of((4,), ("fsdp",)))
    optimizer: Any = getattr(torchao.optim, name)(model.parameters(), lr=1e-2)
    return train(model, optimizer, partial(loss, model))
