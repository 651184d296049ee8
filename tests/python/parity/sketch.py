"""Tensors without data: what an operand is before it is laid out on a mesh."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch._ops import OpOverload

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sketch:
    """Shape, dtype and stride of one tensor operand."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    stride: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.stride:
            object.__setattr__(self, "stride", contiguous(self.shape))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def empty(self) -> torch.Tensor:
        """The tensor itself; call it under a fake mode."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype)

    @staticmethod
    def of(tensor: torch.Tensor) -> Sketch:
        return Sketch(tuple(tensor.shape), tensor.dtype, tuple(tensor.stride()))


@dataclass(frozen=True, slots=True)
class Problem:
    """A call of an op with sketches where the tensors go. ``foreign`` names the positional tensor
    arguments that may live on another mesh than the rest."""

    op: OpOverload
    args: tuple[object, ...]
    kwargs: dict[str, object] = field(default_factory=dict)
    foreign: tuple[int, ...] = ()

    def sketches(self) -> list[Sketch]:
        """Tensor operands in the order torch counts them: args, then kwargs, lists flattened."""
        return list(leaves(Sketch, (*self.args, *self.kwargs.values())))


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= max(size, 1)
    return tuple(stride)


def permuted(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a dense tensor whose dims lie in memory in the given order, outermost first."""
    stride = [0] * len(shape)
    step = 1
    for dim in reversed(order):
        stride[dim] = step
        step *= max(shape[dim], 1)
    return tuple(stride)


def numel(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def leaves(kind: type[T], values: object) -> Iterator[T]:
    """Instances of `kind` in nested lists and tuples, in order."""
    if isinstance(values, kind):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from leaves(kind, value)


def map_leaves(kind: type[T], change: Callable[[T], object], value: object) -> Any:
    """`value` with every instance of `kind` replaced; lists stay lists and tuples stay tuples."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map_leaves(kind, change, item) for item in value)
    return value
