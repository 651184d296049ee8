"""Lightning's ModelParallelStrategy: two ranks of data times two of tensor parallelism."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from tests.python.programs.outcome import Results
from tests.python.programs.world import gradients, parameters, seeded

STEPS = 3


def trained() -> Results:
    """What the training step returned, gradients, and the parameters at the end."""
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.strategies import ModelParallelStrategy

    os.environ.update(
        RANK=str(dist.get_rank()),
        LOCAL_RANK=str(dist.get_rank()),
        WORLD_SIZE=str(dist.get_world_size()),
        LOCAL_WORLD_SIZE=str(dist.get_world_size()),
        MASTER_ADDR="localhost",
        MASTER_PORT="29500",
        TORCHELASTIC_RUN_ID="shardprop",
    )
    found: dict[str, object] = {}

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

        def configure_model(self) -> None:
            mesh: Any = self.device_mesh
            plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
            parallelize_module(self.layers, mesh["tensor_parallel"], plan)
            fully_shard(self.layers, mesh=mesh["data_parallel"])

        def training_step(self, batch: torch.Tensor, step: int) -> torch.Tensor:
            loss: torch.Tensor = self.layers(batch).square().sum()
            found[f"loss {step}"] = loss.detach()
            return loss

        def on_after_backward(self) -> None:
            found[f"gradients {self.global_step}"] = gradients(self)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    module = Module()
    trainer = Trainer(
        accelerator="cpu",
        devices=4,
        strategy=ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=2),
        max_steps=STEPS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    batches: Any = [seeded(4, 16, seed=step) for step in range(STEPS)]
    trainer.fit(module, torch.utils.data.DataLoader(batches, batch_size=None))
    return found | {"parameters": parameters(module)}
