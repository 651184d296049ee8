"""Six models, laid out as a program would first write them: each parameter cut along its first dim,
the batch cut along its own, and nothing said about what lies between.

On a mesh of several dims the batch is cut over the first of them and parameters over the last.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, Replicate, Shard, distribute_tensor

__all__ = ["MODELS", "training_step"]

_WIDTH, _LENGTH, _BATCH, _WORDS = 256, 64, 16, 2048


class Residual(nn.Module):
    """Adds what a module makes of its input to it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """Of any shape that the module keeps."""
        return x + self.inner(x)


def mlp(width: int, hidden: int) -> nn.Sequential:
    """Two products with a GELU between them."""
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


class Attention(nn.Module):
    """Self-attention of four heads, written out, without a mask."""

    heads = 4

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """Batch, length, width."""
        batch, length, width = x.shape
        each = width // self.heads

        def of_heads(made: Tensor) -> Tensor:
            return made.view(batch, length, self.heads, each).transpose(1, 2)

        q, k, v = (of_heads(linear(x)) for linear in (self.q, self.k, self.v))
        mixed = torch.softmax(q @ k.transpose(-1, -2) / each**0.5, -1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def block(width: int) -> nn.Sequential:
    """A transformer's, normed before each part."""
    return nn.Sequential(
        Residual(nn.Sequential(nn.LayerNorm(width), Attention(width))),
        Residual(nn.Sequential(nn.LayerNorm(width), mlp(width, 4 * width))),
    )


class Transposed(nn.Module):
    """A module over the last dim but one."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """Batch, length, width."""
        return self.inner(x.transpose(1, 2)).transpose(1, 2)


def mixer(layers: int) -> nn.Sequential:
    """Mixes positions, then channels."""
    made: list[nn.Module] = []
    for _ in range(layers):
        positions = Transposed(nn.Linear(_LENGTH, _LENGTH))
        made.append(Residual(nn.Sequential(nn.LayerNorm(_WIDTH), positions)))
        made.append(Residual(mlp(_WIDTH, 2 * _WIDTH)))
    return nn.Sequential(*made)


class Words(nn.Module):
    """What words and their places mean."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(_WORDS, _WIDTH)
        self.places = nn.Parameter(torch.randn(_LENGTH, _WIDTH))

    def forward(self, numbers: Tensor) -> Tensor:
        """Batch, length."""
        return self.words(numbers) + self.places


def gpt(layers: int) -> nn.Sequential:
    """Words to scores of words."""
    return nn.Sequential(
        Words(),
        *(block(_WIDTH) for _ in range(layers)),
        nn.LayerNorm(_WIDTH),
        nn.Linear(_WIDTH, _WORDS, bias=False),
    )


def autoencoder() -> nn.Sequential:
    """Narrow in the middle."""
    widths = (1024, 512, 64, 512, 1024)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Towers(nn.Module):
    """How well an item fits a user: an embedding and an MLP for each, and their product."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = (
            nn.Sequential(nn.Embedding(_WORDS, _WIDTH), mlp(_WIDTH, 4 * _WIDTH)) for _ in range(2)
        )

    def forward(self, pairs: Tensor) -> Tensor:
        """Numbers of users and items, as pairs."""
        users, items = pairs.unbind(1)
        return (self.users(users) * self.items(items)).sum(-1)


def _of_words(scores: Tensor, words: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), words.flatten(0, 1))


@dataclass(frozen=True)
class _Model:
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]  # of the input
    words: bool = False  # is the input numbers of words
    target: tuple[int, ...] | None = None  # its shape, where it is not that of the input
    loss: Callable[[Tensor, Tensor], Tensor] = F.mse_loss


_SEQUENCES = (_BATCH, _LENGTH, _WIDTH)
MODELS: dict[str, _Model] = {
    "MLP": _Model(
        lambda: nn.Sequential(*(Residual(mlp(_WIDTH, 4 * _WIDTH)) for _ in range(4))), _SEQUENCES
    ),
    "transformer block": _Model(lambda: block(_WIDTH), _SEQUENCES),
    "GPT": _Model(lambda: gpt(2), (_BATCH, _LENGTH), words=True, loss=_of_words),
    "mixer": _Model(lambda: mixer(3), _SEQUENCES),
    "autoencoder": _Model(autoencoder, (64, 1024)),
    "two towers": _Model(Towers, (1024, 2), words=True, target=(1024,)),
}


def training_step(name: str, mesh: DeviceMesh) -> Callable[[], Any]:
    """A step of one of `MODELS` forward and backward, whose loss it gives."""
    torch.manual_seed(0)
    model = MODELS[name]
    alone: tuple[Placement, ...] = (Replicate(),) * (mesh.ndim - 1)
    module = model.make()
    for part in module.modules():
        for key, parameter in list(part.named_parameters(recurse=False)):
            cut = distribute_tensor(parameter.data, mesh, (*alone, Shard(0)))
            setattr(part, key, nn.Parameter(cut))
    given = torch.randint(_WORDS, model.shape) if model.words else torch.randn(model.shape)
    wanted = (
        torch.randint(_WORDS, model.shape)
        if model.words and model.target is None
        else torch.randn(model.target or model.shape)
    )
    x, y = (distribute_tensor(each, mesh, (Shard(0), *alone)) for each in (given, wanted))

    def step() -> Any:
        module.zero_grad()
        loss = model.loss(module(x), y)
        loss.backward()
        return loss

    return step
