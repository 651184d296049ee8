"""Random shapes and values, biased towards what sharding decisions react to."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

import torch

from .meshes import MeshKey
from .sketch import Sketch, permuted

T = TypeVar("T")

_HUGE = (1 << 26) + 1

FLOATS = (torch.float32, torch.float32, torch.bfloat16, torch.float64)


class Dice:
    """A random source that knows the mesh, so that sizes divide by it about half of the time."""

    def __init__(self, rng: random.Random, mesh: MeshKey, largest: int = 1 << 30) -> None:
        self.rng = rng
        self.mesh = mesh
        self.largest = largest  # no size is above it
        # Zero-size tensors are a corner of their own: a whole problem has them or none has.
        luck = rng.random()
        self.empties = luck < 0.03
        # Tensors of more than 2**53 bytes, where Python's int arithmetic and a double part ways.
        self.huge = luck > 0.99
        # Output masks: an out= overload needs every output to be made.
        self.all_outputs = False

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        return options[self.rng.randrange(len(options))]

    def between(self, low: int, high: int) -> int:
        """An int of low..high, both included."""
        return self.rng.randint(low, high)

    def sample(self, count: int, size: int) -> list[int]:
        """Distinct ints below `count`, in random order."""
        return self.rng.sample(range(count), size)

    def wants_output(self, probability: float = 0.8) -> bool:
        """Whether an output mask asks for an output, or its operand is there at all."""
        return self.all_outputs or self.chance(probability)

    # Sizes and shapes ---------------------------------------------------------------------------

    def size(self, low: int = 1, high: int = 1 << 30) -> int:
        """Size of one tensor dim, at least `low`, at most `high`."""
        luck = self.rng.random()
        high = min(high, self.largest)
        if self.empties and low == 0 and luck < 0.3:
            return 0
        if self.huge and high > _HUGE:
            return _HUGE if luck < 0.4 else self.between(max(low, 1), max(low, 16))
        if luck < 0.35:
            size = self.mesh.numel * self.rng.choice((1, 1, 2, 3, 4))
        elif luck < 0.6:
            size = self.rng.choice((1, 2, 3, 4))
            for mesh_size in self.mesh.sizes:
                if self.chance(0.7):
                    size *= mesh_size
        elif luck < 0.74:
            size = self.between(1, 17)
        elif luck < 0.8:
            size = self.between(1, 3)
        else:
            size = self.rng.choice((32, 64, 100, 128, 1000, 1024, 4096, 16384))
        return min(max(size, low), high)

    def even(self) -> int:
        """A size that the whole mesh divides."""
        return self.mesh.numel * self.between(1, 3)

    def ndim(self, low: int = 0, high: int = 4) -> int:
        wanted = self.rng.choices((0, 1, 2, 3, 4), (3, 22, 45, 24, 6))[0]
        return min(max(wanted, low), high)

    def shape(self, ndim: int | None = None, low: int = 0, high: int = 1 << 30) -> tuple[int, ...]:
        count = self.ndim() if ndim is None else ndim
        return tuple(self.size(low, high) for _ in range(count))

    def dim(self, ndim: int) -> int:
        """A dim of a tensor of `ndim` dims, negative one time in five."""
        if ndim == 0:
            return self.pick((0, -1))
        dim = self.rng.randrange(ndim)
        return dim - ndim if self.chance(0.2) else dim

    def dims(self, ndim: int, low: int = 0) -> list[int]:
        """Some distinct dims, in random order."""
        if ndim == 0:
            return []
        return self.sample(ndim, self.between(min(low, ndim), ndim))

    def broadcastable(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts to `shape`: most often the same one."""
        if self.chance(0.6) or not shape:
            return shape
        dropped = self.between(0, len(shape)) if self.chance(0.6) else 0
        return tuple(1 if self.chance(0.3) else size for size in shape[dropped:])

    # Tensors ------------------------------------------------------------------------------------

    def tensor(
        self, shape: Sequence[int], dtype: torch.dtype = torch.float32, *, dense: bool = False
    ) -> Sketch:
        """A tensor; one in eight is not contiguous unless `dense`."""
        shape = tuple(shape)
        if dense or len(shape) < 2 or not self.chance(0.125):
            return Sketch(shape, dtype)
        order = tuple(self.sample(len(shape), len(shape)))
        return Sketch(shape, dtype, permuted(shape, order))

    def floats(self) -> torch.dtype:
        return self.pick(FLOATS)
