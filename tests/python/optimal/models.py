"""Cost models to try planners on: torch's ring model, and random ones of many kinds."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence

from shardprop.cost.cost_model import (
    COLLECTIVES,
    CostModel,
    GroupCosts,
    LinearPrice,
    PiecewisePrice,
    PricePiece,
)

__all__ = ["all_groups", "random_groups", "random_model", "ring_model"]

GIB = 1024**3

# Microseconds of a launch, of a hop within and between hosts; GiB/s of the same (NVLink, and 0.22
# of it between hosts).
_LAUNCH = 6.6
_LATENCY = (0.6, 2.7)
_BANDWIDTH = (87.7, 87.7 * 0.22)


def all_groups(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Every set of two and more mesh dims that have more than one rank."""
    active = [m for m, size in enumerate(sizes) if size > 1]
    return [
        group
        for count in range(2, len(active) + 1)
        for group in itertools.combinations(active, count)
    ]


def random_groups(rng: random.Random, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Some of them."""
    share = rng.choice((0.0, 0.3, 0.7, 1.0))
    return [group for group in all_groups(sizes) if rng.random() < share]


def ring_model(
    sizes: Sequence[int],
    groups: Sequence[tuple[int, ...]] = (),
    *,
    devices_per_host: int = 8,
    all_to_all_us: float = 1.0,
) -> CostModel:
    """What torch takes collectives for; a flattened group is as slow as its slowest mesh dim.

    Args:
        all_to_all_us: torch adds a microsecond to each all-to-all.
    """
    far = [math.prod(sizes[m:]) > devices_per_host for m in range(len(sizes))]

    def costs(group: tuple[int, ...]) -> GroupCosts:
        n = math.prod(sizes[m] for m in group)
        crosses = any(far[m] for m in group)
        latency, per_byte = _LATENCY[crosses], 1e6 / (GIB * _BANDWIDTH[crosses])
        hops = {"all_reduce": 2 * (n - 1), "permute": 1}
        extra = {"all_to_all": all_to_all_us}
        return _costs(
            group,
            lambda kind: LinearPrice(
                _LAUNCH + hops.get(kind, n - 1) * latency + extra.get(kind, 0.0), per_byte
            ),
        )

    return CostModel(
        tuple(sizes),
        tuple(costs(group) for group in [*_alone(sizes), *groups]),
        kernel_us=0.0,
        memory_us_per_byte=0.0,
    )


def random_model(rng: random.Random, sizes: Sequence[int]) -> CostModel:
    """A model in which anything may be dear: a launch, a mesh dim, a collective, a local copy."""
    groups = random_groups(rng, sizes)
    if rng.random() < 0.15:
        return ring_model(sizes, groups, devices_per_host=rng.choice((1, 4, 8)))
    launch = rng.choice((0.0, 1.0, 6.6, 50.0))
    speed = {m: 10 ** rng.uniform(-6, -3) for m in range(len(sizes))}
    odd = rng.random() < 0.3  # collectives of a group have nothing to do with each other
    broken = rng.random() < 0.3  # prices fall and rise at some sizes, as those of NCCL's tuner do

    def line(group: tuple[int, ...], kind: str) -> LinearPrice | PiecewisePrice:
        n = math.prod(sizes[m] for m in group)
        per_byte = max(speed[m] for m in group)
        if odd or (len(group) > 1 and rng.random() < 0.3):
            per_byte *= 10 ** rng.uniform(-1, 1)
        hops = {"all_reduce": 2 * (n - 1), "permute": 1}.get(kind, n - 1)
        price = LinearPrice(launch + hops * rng.choice((0.0, 0.6, 2.7)), per_byte)
        return _broken(rng, price) if broken else price

    def costs(group: tuple[int, ...]) -> GroupCosts:
        return _costs(group, lambda kind: line(group, kind))

    return CostModel(
        tuple(sizes),
        tuple(costs(group) for group in [*_alone(sizes), *groups]),
        kernel_us=rng.choice((0.0, 1.0, 5.0, 40.0)),
        memory_us_per_byte=rng.choice((0.0, 1e-6, 1e-4, 1e-2)),
        all_to_all_gathers=rng.random() < 0.2,
    )


def _broken(rng: random.Random, line: LinearPrice) -> PiecewisePrice:
    """The line, but for some sizes dearer or cheaper."""
    starts = sorted({0, *(rng.randrange(4096) for _ in range(rng.randrange(4)))})
    return PiecewisePrice(
        tuple(
            PricePiece(
                start,
                line.fixed_us * rng.choice((1.0, 1.0, 0.5, 3.0)),
                line.us_per_byte * rng.choice((1.0, 0.4, 2.5)),
            )
            for start in starts
        )
    )


def _alone(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    return [(m,) for m, size in enumerate(sizes) if size > 1]


def _costs(
    group: tuple[int, ...], line: Callable[[str], LinearPrice | PiecewisePrice]
) -> GroupCosts:
    return GroupCosts(group, tuple(line(kind) for kind in COLLECTIVES))
