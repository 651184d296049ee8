"""Random layouts for tests."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch.distributed.tensor import Partial, Placement

from ...specs import SS, P, R, S

MESHES = [(2,), (3,), (2, 2), (2, 3)]
SHAPES = [(7,), (8, 6), (5, 3), (4, 9, 2), (1, 6), (0, 3)]

__all__ = ["MESHES", "SHAPES", "SS", "P", "R", "S", "random_layout"]


def random_layout(
    shape: Sequence[int],
    sizes: Sequence[int],
    chance: random.Random,
    kinds: Sequence[str] = ("R", "S", "SS", "P"),
    reduce_op: str = "sum",
) -> tuple[Placement, ...]:
    """A placement for each mesh dim; all Partials of one kind, as torch asks."""
    made: list[Placement] = []
    for _ in sizes:
        kind = chance.choice(kinds)
        dim = chance.randrange(len(shape))
        made.append({"R": R, "S": S(dim), "SS": SS(dim, 2), "P": Partial(reduce_op)}[kind])
    return tuple(made)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
