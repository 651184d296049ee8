"""The same call on tensors of other sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .call import Call

__all__ = ["listed_ints", "resized", "sizes_of"]


def listed_ints(value: Any) -> set[int]:
    """The numbers in lists among arguments: sizes, for the most part."""
    if not isinstance(value, (list, tuple)):
        return set()
    ints = {x for x in value if isinstance(x, int) and not isinstance(x, bool)}
    return ints.union(*map(listed_ints, value))


def sizes_of(call: Call) -> set[int]:
    """The sizes of the dims of a call's tensors."""
    return {size for tensor in call.tensors for size in tensor.shape}


def resized(
    call: Call, change: Mapping[int, int], random: torch.Generator, wrap: bool = False
) -> Call:
    """The call with sizes changed, all that are equal alike: of its tensors, and in its lists.

    `wrap`: take integers modulo the smallest size, since they may be indices.
    """

    def resize(size: int) -> int:
        return change.get(size, size)

    modulus = min(map(resize, sizes_of(call))) if wrap else None

    def in_lists(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(resize(x) if type(x) is int else in_lists(x) for x in value)
        return value

    return call.with_arguments(in_lists).with_tensors(
        lambda tensor: _resized(tensor, [*map(resize, tensor.shape)], modulus, random)
    )


def _resized(
    tensor: torch.Tensor,
    shape: list[int],
    modulus: int | None,
    random: torch.Generator,
) -> torch.Tensor:
    smaller = tensor[tuple(map(slice, shape))]
    other = smaller.expand(shape).clone()
    if other.numel() > smaller.numel() and other.dtype.is_floating_point:
        other += torch.rand(other.shape, generator=random, dtype=other.dtype)  # else rows are alike
    is_index = not (other.dtype.is_floating_point or other.dtype.is_complex)
    if modulus is None or not is_index or other.dtype is torch.bool:
        return other
    return other % modulus
