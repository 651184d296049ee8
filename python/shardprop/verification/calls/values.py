"""Small tensors for the calls that are written by hand, of one seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

__all__ = ["Arguments", "Table", "Values", "given"]

# The positional arguments of a call, and those by name.
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Values:
    """Makes the operands of calls; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """Normally distributed numbers."""
        return torch.randn(shape, dtype=dtype, generator=self._generator)

    def positive(self, *shape: int) -> torch.Tensor:
        """Numbers from 0.5 to 1.5."""
        return torch.rand(shape, dtype=torch.float64, generator=self._generator) + 0.5

    def index(self, high: int, *shape: int) -> torch.Tensor:
        """Integers from 0 to `high`, which is left out."""
        return torch.randint(high, shape, generator=self._generator)

    def definite(self, *shape: int) -> torch.Tensor:
        """Symmetric matrices without a negative eigenvalue, nor one near zero."""
        root = self(*shape)
        return root @ root.mT + shape[-1] * torch.eye(shape[-1], dtype=torch.float64)


# Per op, as it prints, what makes its calls.
Table = Mapping[str, Callable[[Values], Iterable[Arguments]]]


def given(*args: Any, **kwargs: Any) -> Arguments:
    """The arguments of a call as they are typed."""
    return args, kwargs
