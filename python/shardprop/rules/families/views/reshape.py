"""The dim map of a reshape: both shapes are walked from the left, and cut where they agree."""

from __future__ import annotations

import math

from ...._torch import free_symbols
from ...._torch.symbolic_sizes import holds, known, maybe
from .declined import Declined, Endless
from .dim_map import DimMap, Group, Shape, dim_map, size_list

__all__ = ["reshaped", "viewed"]


def viewed(shape: Shape, *sizes: int | Shape) -> DimMap:
    """For sizes given one by one or as a list."""
    return _reshaped(shape, size_list(*sizes))


def reshaped(shape: Shape, sizes: Shape) -> DimMap:
    """For sizes given as a list, which torch wants not empty here."""
    return _reshaped(shape, size_list(*sizes))


def _reshaped(shape: Shape, sizes: Shape) -> DimMap:
    numel = math.prod(shape)
    target = _with_inferred_size(numel, sizes)
    if not holds(numel == math.prod(target)):
        raise Declined("another number of elements")
    return dim_map(_Walk(shape, target).groups())


def _with_inferred_size(numel: int, sizes: Shape) -> Shape:
    """The sizes with a number in place of -1."""
    unknown = sum(known(size == -1) for size in sizes)
    product = math.prod(sizes)
    if unknown > 1:
        raise Declined("more than one size to infer")
    if not unknown:
        if not holds(product == numel):
            raise Declined("another number of elements")
        return sizes
    inferred = numel // -product
    if not holds(numel % -product == 0):
        raise Declined("no whole size to infer")
    return tuple(inferred if known(size == -1) else size for size in sizes)


class _Walk:
    """Two shapes of equal products, and how far each has been read."""

    def __init__(self, shape: Shape, target: Shape) -> None:
        self.shape = shape
        self.target = target
        self.read = 0  # of the shape
        self.written = 0  # of the target

    def groups(self) -> list[Group]:
        found = []
        while self.read < len(self.shape) or self.written < len(self.target):
            size = self.shape[self.read] if self.read < len(self.shape) else 1
            wanted = self.target[self.written] if self.written < len(self.target) else 1
            # Sizes of one are left out of groups, on either side.
            if known(size == 1) and maybe(wanted != 1):
                self._skip_input()
            elif maybe(size != 1) and known(wanted == 1):
                self._skip_output()
            else:
                dims, outputs = self._balance(size, wanted)
                if outputs:
                    found.append(self._group(dims, outputs))
        return [group for group in found if group.merged and group.outputs]

    def _skip_input(self) -> None:
        if self.read == len(self.shape):
            raise Endless("sizes are left over after one of zero")
        self.read += 1

    def _skip_output(self) -> None:
        if self.written == len(self.target):
            raise Endless("dims are left over after one of size zero")
        self.written += 1

    def _balance(self, size: int, wanted: int) -> tuple[range, range]:
        """Read on, on either side, until both products agree; the dims and outputs passed."""
        dims, outputs = len(self.shape), len(self.target)
        first, first_output = self.read, self.written
        self.read = min(self.read + 1, dims)
        self.written = min(self.written + 1, outputs)
        while not known(size == wanted):
            more_dims, more_outputs = self.read < dims, self.written < outputs
            if not (more_dims or more_outputs):
                break
            if more_dims and (
                not more_outputs or known(wanted % size == 0) or known(wanted > size)
            ):
                take_dim = True
            elif more_outputs and (
                not more_dims
                or known(size % wanted == 0)
                or known(size > wanted)
                or (free_symbols(size) and not free_symbols(wanted))
            ):
                take_dim = False
            elif more_dims and free_symbols(wanted) and not free_symbols(size):
                take_dim = True
            else:
                # Nothing is known of two symbolic sizes: all that is left is one group.
                self.read, self.written = dims, outputs
                break
            if take_dim:
                size = size * self.shape[self.read]
                self.read += 1
            else:
                wanted = wanted * self.target[self.written]
                self.written += 1
        return range(first, self.read), range(first_output, self.written)

    def _group(self, dims: range, outputs: range) -> Group:
        merged = tuple(dim for dim in dims if maybe(self.shape[dim] >= 1))
        if len(outputs) == 1:
            return Group(merged, (outputs[0],))
        kept = tuple(output for output in outputs if not known(self.target[output] == 1))
        return Group(merged, kept, tuple(self.target[output] for output in kept))
