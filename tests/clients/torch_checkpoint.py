"""torch.distributed.checkpoint: what is saved of a sharded model and its optimizer comes back."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from tests.python.programs.outcome import Results
from tests.python.programs.world import mesh_of, parameters, seeded, train

from .folders import shared_folder


def model_of() -> tuple[nn.Sequential, torch.optim.Optimizer]:
    mesh = mesh_of((2, 2), ("fsdp", "tp"))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.LayerNorm(16))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["fsdp"])
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def loss(model: nn.Module, step: int) -> torch.Tensor:
    made: torch.Tensor = model(seeded(4, 16, seed=step)).square().sum()
    return made


def saved_and_loaded() -> Results:
    model, optimizer = model_of()
    before = train(model, optimizer, partial(loss, model))
    other, its_optimizer = model_of()
    train(other, its_optimizer, partial(loss, other), steps=1)
    with shared_folder() as folder:
        of_model, of_optimizer = get_state_dict(model, optimizer)
        save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder)
        of_model, of_optimizer = get_state_dict(other, its_optimizer)
        load({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder)
    set_state_dict(other, its_optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer)
    loaded = parameters(other)
    after = train(other, its_optimizer, partial(loss, other))
    return {"before": before, "loaded": loaded, "after": after}
