"""One program in one process: by torch alone, then under policy ``optimal``, and how near they are.

Under policy ``optimal`` the layouts between the ops are others than torch's, and so the sums are
made in another order: results cannot be equal to the bit, and may come in other layouts. So whole
tensors are compared, each within a tolerance that is relative to its largest element.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor

import shardprop
from shardprop.cli.decisions import clear_every_cache

from ..narrow import sharded
from ..quiet import quiet
from .compare import Program
from .outcome import is_finite

TOLERANCE = 1e-3
"""Of float32, which carries 1.2e-7: sums in another order differ by a few of that, but AdamW
divides each gradient by its own size, and so makes steps of the whole learning rate out of elements
that are all rounding error. 2e-4 is the most that was seen; a wrong plan is off by some 1e-1."""

TOLERANCE_BFLOAT16 = 2e-2
"""Where parts of a program are in bfloat16, which carries 7.8e-3."""

_LEAST_SIZE = 1e-5
"""A tensor with no element as large as this one is all rounding error: the gradient of a bias to
keys is 0, as softmax does not see a shift."""


@dataclass(frozen=True)
class NearReport:
    """How the two runs of a program relate on one rank.

    Attributes:
        differences: Results that are not near, or not there, with what was found.
        largest: The largest relative difference of any result.
        compared: Tensors and floats that were compared.
        finite: All results of the run under policy ``optimal`` are finite numbers.
        stats: Its counters.
    """

    differences: tuple[str, ...]
    largest: float
    compared: int
    finite: bool
    stats: shardprop.Stats


def compare_near(program: Program, *, tolerance: float = TOLERANCE, **settings: Any) -> NearReport:
    """Run the program twice from the same state: by torch alone, and under policy ``optimal``.

    Args:
        program: Its tensors and floats are compared. What else it returns (counts, logs, errors)
            tells of its plans, which are to differ.
        tolerance: Relative to the largest element of each tensor.
        **settings: Of `shardprop.enable`.
    """
    alone = _run(program, None)
    ours = _run(program, settings)
    stats = shardprop.stats()
    found = dict(_distances("results", alone, ours))
    return NearReport(
        differences=tuple(
            f"{path}: {distance}" for path, distance in found.items() if not distance <= tolerance
        ),
        largest=max(found.values(), default=0.0),
        compared=len(found),
        finite=is_finite(ours),
        stats=stats,
    )


def _run(program: Program, settings: Mapping[str, Any] | None) -> object:
    """Whole results, from caches as cold as in a new process."""
    assert not shardprop.is_enabled(), "torch alone must be alone"
    clear_every_cache()
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
    torch.manual_seed(0)
    shardprop.reset_stats()
    hook = nullcontext() if settings is None else shardprop.enabled(policy="optimal", **settings)
    with quiet(), hook:
        results = program()
    return _whole(results)


def _whole(value: object) -> object:
    """Every DTensor as a plain tensor, by torch alone; all ranks have to."""
    match value:
        case DTensor():
            return _whole(sharded(value.detach()).full_tensor())
        case AsyncCollectiveTensor():
            return value.wait()
        case torch.Tensor():
            return value.detach().clone()
        case Mapping():
            return {key: _whole(item) for key, item in value.items()}
        case list() | tuple():
            return [_whole(item) for item in value]
        case _:
            return value


def _distances(path: str, alone: object, ours: object) -> Iterator[tuple[str, float]]:
    """How far each result is from torch's, relative to its largest element."""
    match alone, ours:
        case torch.Tensor(), torch.Tensor():
            yield path, _distance(alone, ours)
        case float(), float():
            yield path, _distance(torch.tensor(alone), torch.tensor(ours))
        case Mapping(), Mapping():
            for key in dict.fromkeys([*alone, *ours]):
                yield from _distances(f"{path}[{key!r}]", alone.get(key), ours.get(key))
        case list(), list() if len(alone) == len(ours):
            for index, (a, b) in enumerate(zip(alone, ours, strict=True)):
                yield from _distances(f"{path}[{index}]", a, b)
        case _ if type(alone) is not type(ours) or isinstance(alone, list):
            yield path, float("inf")


def _distance(alone: torch.Tensor, ours: torch.Tensor) -> float:
    if alone.shape != ours.shape or alone.dtype != ours.dtype:
        return float("inf")
    if not alone.numel():
        return 0.0
    size = alone.abs().max().item()
    distance = (alone.double() - ours.double()).abs().max().item()
    return distance / max(size, _LEAST_SIZE)
