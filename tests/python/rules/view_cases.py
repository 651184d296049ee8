"""Random questions about view ops: shapes, arguments, meshes and placements."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.placement_types import _MaskPartial, _StridedShard

aten = torch.ops.aten

SIZES = (1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 12, 16)
MESHES = (
    *((1,), (2,), (3,), (4,), (7,)),
    *((1, 4), (2, 2), (2, 3), (3, 2), (4, 2), (5, 3)),
    *((2, 1, 2), (2, 2, 2), (2, 3, 4), (3, 2, 2)),
    *((1, 2, 3, 2), (2, 2, 2, 2), (2, 3, 2, 2), (4, 2, 1, 2)),
)


class Case(NamedTuple):
    """An op, the shape of its input, the arguments after it, a mesh and the input's placements."""

    op: Any
    shape: tuple[int, ...]
    rest: tuple[Any, ...]
    mesh: tuple[int, ...]
    placements: tuple[Placement, ...]


def random_shape(rng: random.Random, least: int = 0) -> tuple[int, ...]:
    shape = [rng.choice(SIZES) for _ in range(rng.randint(least, 5))]
    if shape and rng.random() < 0.05:
        shape[rng.randrange(len(shape))] = 0
    return tuple(shape)


def random_placement(rng: random.Random, ndim: int, dim: int | None = None) -> Placement:
    kind = rng.random()
    if ndim and kind < 0.55:
        if dim is None:
            dim = rng.randrange(ndim)
        if kind < 0.38:
            return Shard(dim)
        return _StridedShard(dim, split_factor=rng.choice((1, 2, 2, 2, 3, 4, 6, 8)))
    if kind < 0.85:
        return Replicate()
    return rng.choice(
        (Partial(), Partial("avg"), Partial("max"), _MaskPartial(offset_shape=torch.Size((4,))))
    )


def random_placements(rng: random.Random, ndim: int, mesh_ndim: int) -> tuple[Placement, ...]:
    # One dim sharded several times is where most of the cases are.
    favourite = rng.randrange(ndim) if ndim and rng.random() < 0.5 else None
    return tuple(
        random_placement(rng, ndim, favourite if rng.random() < 0.7 else None)
        for _ in range(mesh_ndim)
    )


def random_cut(rng: random.Random, shape: Sequence[int]) -> list[int]:
    """Sizes with the product of a shape: neighbours merged, dims cut, ones put in."""
    sizes = list(shape)
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(sizes)) if sizes else 0
        action = rng.random()
        if action < 0.4 and len(sizes) > 1:
            at = rng.randrange(len(sizes) - 1)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        elif action < 0.8 and sizes and sizes[at] > 1:
            divisors = [n for n in range(1, sizes[at] + 1) if sizes[at] % n == 0]
            first = rng.choice(divisors)
            sizes[at : at + 1] = [first, sizes[at] // first]
        elif action < 0.9:
            sizes.insert(at, 1)
        elif 1 in sizes:
            sizes.remove(1)
    if rng.random() < 0.2:
        factors = [f for size in sizes for f in _prime_factors(size)]
        rng.shuffle(factors)
        sizes = [0] * (0 in sizes)
        while factors:
            take = rng.randint(1, 3)
            sizes.append(math.prod(factors[:take]))
            factors = factors[take:]
    if sizes and rng.random() < 0.3:
        sizes[rng.randrange(len(sizes))] = -1
    if rng.random() < 0.02:
        sizes.append(rng.choice((-1, 2, 3)))
    return sizes


def _prime_factors(size: int) -> list[int]:
    factors, prime = [], 2
    while size > 1:
        while size % prime == 0:
            factors.append(prime)
            size //= prime
        prime += 1
    return factors


def _any_dim(rng: random.Random, ndim: int) -> int:
    return rng.randrange(-ndim, ndim) if ndim else rng.choice((0, -1))


def random_arguments(rng: random.Random, op: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Arguments after the tensor that the op takes for a shape (and a few that it does not)."""
    ndim = len(shape)
    name = op.name().removeprefix("aten::").split(".")[0]
    match name:
        case "squeeze" | "squeeze_":
            match op._overloadname:
                case "default":
                    return ()
                case "dim":
                    return (_any_dim(rng, ndim),)
            return (rng.sample(range(-ndim, 0), rng.randint(0, ndim)),)
        case "view" | "view_copy" | "_unsafe_view" | "reshape":
            return (random_cut(rng, shape),)
        case "unsqueeze":
            return (rng.randrange(-ndim - 1, ndim + 1),)
        case "expand" | "expand_copy":
            new = [rng.choice((0, 1, 2, 3)) for _ in range(rng.randint(0, 2))]
            old = [rng.choice((-1, s, rng.choice((1, 2, 4)) if s == 1 else s)) for s in shape]
            return (new + old,)
        case "permute":
            dims = rng.sample(range(ndim), ndim)
            return ([d - ndim if rng.random() < 0.3 else d for d in dims],)
        case "repeat":
            return ([rng.choice((1, 1, 2, 3, 0)) for _ in range(ndim + rng.randint(0, 2))],)
        case "transpose":
            return (_any_dim(rng, ndim), _any_dim(rng, ndim))
        case "view_as_real":
            return ()
    raise AssertionError(f"no arguments known for {op}")


def random_case(rng: random.Random, op: Any) -> Case:
    shape = random_shape(rng)
    mesh = rng.choice(MESHES)
    return Case(
        op,
        shape,
        random_arguments(rng, op, shape),
        mesh,
        random_placements(rng, len(shape), len(mesh)),
    )
