"""An op of a user's, and calls of it: what `shardprop discover --module --samples` is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("discovered::gated_rowscale", mutates_args=())
def gated_rowscale(x: Tensor, gate: Tensor, scale: Tensor, dim: int) -> Tensor:
    """x * softmax(gate) * scale, where `scale` has one number for each place along `dim`."""
    shape = [1] * x.ndim
    shape[dim] = -1
    return x * torch.softmax(gate, dim) * scale.reshape(shape)


def samples(op: object) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Calls of it."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    for shape in ((6, 12), (12, 6, 4)):
        for dim in (0, -1):
            yield (random(*shape), random(*shape), random(shape[dim]), dim), {}
