"""A vision transformer whose patches come from a DTensor convolution, all parameters DTensors.

The batch is sharded over dp; attention and MLP weights over tp where the mesh has one.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, Replicate, Shard

from shardprop import _torch

from .check import check
from .compare import compare
from .outcome import Results
from .pool import Pool
from .world import mesh_of, seeded, spread, tokens, train

pytestmark = pytest.mark.slow

DIM, HEADS, HIDDEN, CLASSES, IMAGE, PATCH, BATCH = 32, 4, 64, 10, 16, 4, 8


class Block(nn.Module):
    """LayerNorm, attention, LayerNorm, GELU MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.qkv = nn.ModuleList(nn.Linear(DIM, DIM) for _ in range(3))
        self.out = nn.Linear(DIM, DIM)
        self.norm2 = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, HIDDEN)
        self.down = nn.Linear(HIDDEN, DIM)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.out(self.attention(self.norm1(x)))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

    def attention(self, x: Tensor) -> Tensor:
        batch, patches, _ = x.shape
        q, k, v = (
            linear(x).view(batch, patches, HEADS, DIM // HEADS).transpose(1, 2)
            for linear in self.qkv
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) / (DIM // HEADS) ** 0.5, dim=-1)
        return (weights @ v).transpose(1, 2).reshape(batch, patches, DIM)


class Vision(nn.Module):
    """Images [batch, 3, height, width] to class logits."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, DIM, PATCH, stride=PATCH)
        self.position = nn.Parameter(torch.randn(1, (IMAGE // PATCH) ** 2, DIM) * 0.1)
        self.block = Block()
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.position
        return self.head(self.norm(self.block(x)).mean(dim=1))


def distribute(model: Vision, mesh: DeviceMesh) -> Vision:
    """Every parameter a DTensor: sharded over tp where Megatron would, else replicated."""
    column, row = ("qkv.0", "qkv.1", "qkv.2", "up"), ("out", "down")
    for path, module in model.named_modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            over_tp: Placement = Replicate()
            if path.endswith(column):
                over_tp = Shard(0)
            elif path.endswith(row) and name == "weight":
                over_tp = Shard(1)
            placements = [Replicate(), over_tp][: mesh.ndim]
            module.register_parameter(name, nn.Parameter(spread(parameter, mesh, *placements)))
    return model


def run(shape: tuple[int, ...], *, images_need_gradients: bool) -> Results:
    mesh = mesh_of(shape, ("dp", "tp")[: len(shape)])
    model = distribute(Vision(), mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, foreach=True)
    batch_sharded = [Shard(0), Replicate()][: mesh.ndim]

    def loss(step: int) -> Tensor:
        images = spread(seeded(BATCH, 3, IMAGE, IMAGE, seed=step), mesh, *batch_sharded)
        images.requires_grad_(images_need_gradients)
        labels = spread(tokens(CLASSES, BATCH, seed=step), mesh, *batch_sharded)
        return F.cross_entropy(model(images), labels)

    return train(model, optimizer, loss)


def test_data_parallel(gloo: Pool) -> None:
    program = partial(run, (4,), images_need_gradients=False)
    check(gloo.run(program), decisions=40)


def test_data_and_tensor_parallel() -> None:
    program = partial(run, (2, 2), images_need_gradients=True)
    check([compare(program)], decisions=40)


@pytest.mark.skipif(not _torch.IS_215_OR_LATER, reason="torch 2.13 decides this")
def test_a_convolution_that_torch_cannot_take_back_is_refused_in_the_same_words() -> None:
    """Without a gradient for the images, on a mesh of two dims."""

    def program() -> Results:
        with pytest.raises(AssertionError, match="mixes None with placements") as caught:
            run((2, 2), images_need_gradients=False)
        return {"error": str(caught.value)}

    assert compare(program).differences == ()
