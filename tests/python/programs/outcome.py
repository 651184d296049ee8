"""Results of a program as plain values that are equal only if they are equal to the bit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor

Results = Mapping[str, Any]
"""What a program found, by name: tensors, numbers, text, and lists and dicts of them."""


def freeze(value: object) -> object:
    """Nested tuples. A tensor becomes its bytes: NaN equals NaN, and 0.0 is not -0.0."""
    match value:
        case DTensor():
            placements = tuple(map(repr, value.placements))
            return ("dtensor", tuple(value.shape), placements, freeze(value.to_local()))
        case AsyncCollectiveTensor():
            return freeze(value.wait())
        case torch.Tensor():
            flat = value.detach().cpu().contiguous().reshape(-1)
            raw = flat.view(torch.uint8).numpy().tobytes()
            return ("tensor", str(value.dtype), tuple(value.shape), value.stride(), raw)
        case list() | tuple():
            return tuple(map(freeze, value))
        case Mapping():
            return tuple((key, freeze(item)) for key, item in value.items())
        case float():
            return value.hex()
        case None | bool() | int() | str():
            return value
        case _:
            raise TypeError(f"Expected a result that can be compared, got {type(value)}.")


def is_finite(value: object) -> bool:
    """No NaN and no infinity anywhere, so that equality says something."""
    match value:
        case DTensor():
            return is_finite(value.to_local())
        case torch.Tensor():
            return bool(torch.isfinite(value).all())
        case list() | tuple():
            return all(map(is_finite, value))
        case Mapping():
            return all(map(is_finite, value.values()))
        case float():
            return math.isfinite(value)
        case _:
            return True


def differing(alone: object, ours: object, path: str) -> Iterator[str]:
    """The paths at which two frozen results differ, with what was found there."""
    if alone == ours:
        return
    if (
        isinstance(alone, tuple)
        and isinstance(ours, tuple)
        and len(alone) == len(ours)
        and not (alone[:1] == ("tensor",) or ours[:1] == ("tensor",))
    ):
        for index, (a, b) in enumerate(zip(alone, ours, strict=True)):
            yield from differing(a, b, f"{path}[{index}]")
        return
    yield f"{path}: torch alone {_shown(alone)}, with shardprop {_shown(ours)}"


def _shown(frozen: object) -> str:
    text = repr(frozen)
    return text if len(text) < 400 else f"{text[:400]}..."
