"""An op with a rule that is wrong, and calls of it: a file for ``shardprop discover --diff``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import shardprop


@torch.library.custom_op("discovered::running_sum", mutates_args=())
def running_sum(x: torch.Tensor) -> torch.Tensor:
    """The sum of a row so far."""
    return x.cumsum(-1)


@running_sum.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


# A shard of the last dim does not know the sum of the shards before it.
shardprop.register_rule(running_sum, "... -> ...")


def samples(op: object) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Calls of the op."""
    yield (torch.randn(4, 6, dtype=torch.float64),), {}
