"""The same question with other sizes: what a program asks whose sequence lengths change."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from .case import Case
from .layouts import Operand
from .sketch import Sketch, map_leaves, permuted

# Around the numbers of ranks that our meshes cut by, and far from them, where bytes outweigh
# latencies.
_SIZES = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    12,
    15,
    16,
    17,
    24,
    31,
    32,
    33,
    64,
    96,
    100,
    128,
    1000,
    4096,
)


def resizings(case: Case, rng: random.Random, count: int) -> Iterator[Case]:
    """`count` cases of other sizes. Sizes that were equal stay equal, so that most still fit."""
    now = {size for operand in case.operands() for size in operand.sketch.shape}
    for _ in range(count):
        # Few dims of a program change at a time.
        changing = [size for size in now if size != 1 and rng.random() < 0.6]
        sizes = {size: rng.choice(_SIZES) for size in changing}
        yield replace(
            case,
            args=tuple(_resized(arg, sizes) for arg in case.args),
            kwargs={name: _resized(value, sizes) for name, value in case.kwargs.items()},
        )


def _resized(value: object, sizes: dict[int, int]) -> object:
    """Operands with other sizes, and lists of sizes with them."""
    if isinstance(value, list) and all(type(item) is int for item in value):
        return [sizes.get(item, item) for item in value]
    return map_leaves(Operand, lambda o: replace(o, sketch=_sketch(o.sketch, sizes)), value)


def _sketch(sketch: Sketch, sizes: dict[int, int]) -> Sketch:
    """The tensor with its dims in the same order in memory; expanded dims stay expanded."""
    shape = tuple(sizes.get(size, size) for size in sketch.shape)
    order = sorted(range(sketch.ndim), key=lambda dim: -sketch.stride[dim])
    dense = permuted(shape, tuple(order))
    stride = tuple(0 if old == 0 else new for old, new in zip(sketch.stride, dense, strict=True))
    return Sketch(shape, sketch.dtype, stride)
