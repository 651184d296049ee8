"""The placements that are tried: of operands one kind of shard at a time, of outputs what fits."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

import torch

from ..._torch import Partial, Placement, Replicate, Shard, StridedShard
from .compare import is_rounded
from .execution import Executable
from .partials import Untestable, is_reducible
from .ranks import local_shapes
from .screen import plausible
from .simulation import Simulation

__all__ = ["Combinations", "all_output_placements", "of_operands", "output_placements"]

REPLICATE = Replicate()
_ENOUGH = 6
_REDUCE_OPS = ("sum", "avg", "max", "min", "product", "band", "bor", "bxor")
# Of bools these two are what all others but bxor amount to.
_REDUCE_OPS_OF_BOOLS = ("sum", "product")


def partials_of(dtype: torch.dtype) -> list[Partial]:
    """The kinds of Partial that a tensor of this dtype may have."""
    ops = _REDUCE_OPS_OF_BOOLS if dtype is torch.bool else _REDUCE_OPS
    return [p for p in map(Partial, ops) if is_reducible(dtype, p)]


def shard(dim: int, factor: int) -> Placement:
    """A shard; `factor` 0 is a plain one."""
    return StridedShard(dim, split_factor=factor) if factor else Shard(dim)


def of_operands(
    groups: Sequence[Sequence[int]], placements: Sequence[Placement]
) -> tuple[Placement, ...]:
    """From one placement for each group of operands to one for each operand."""
    placed = {i: p for group, p in zip(groups, placements, strict=True) for i in group}
    return tuple(placed[operand] for operand in range(len(placed)))


class Combinations:
    """Placements of all operands on one mesh dim, operands of one list alike, ``out=`` arguments
    replicated.

    Attributes:
        left_out: Combinations beyond the limit that are not among them.
    """

    def __init__(
        self, executable: Executable, simulation: Simulation, factors: Sequence[int], limit: int
    ) -> None:
        self._groups = executable.groups
        self._operands = executable.operands
        self._simulation = simulation
        self.left_out = 0
        self._outs = set(executable.outs)
        partial = [self._partials(group) for group in self._groups]
        plain = self._with_shards(partial, 0)
        self._spaces = [plain]
        for factor in factors:
            self._spaces.append(self._with_shards(partial, factor))
        self._limit = limit

    def _with_shards(self, partial: list[list[Placement]], factor: int) -> list[list[Placement]]:
        return [
            # What is written anew is placed as the output that it is.
            [REPLICATE]
            if self._outs.issuperset(group)
            else [REPLICATE, *self._shards(group, factor), *kinds]
            for group, kinds in zip(self._groups, partial, strict=True)
        ]

    def _shards(self, group: Sequence[int], factor: int) -> list[Placement]:
        """Shards that leave something on every rank."""
        ranks = self._simulation.sizes[0]
        tensors = [self._operands[index] for index in group]
        dims = range(min(tensor.ndim for tensor in tensors))
        shards = [shard(dim, factor) for dim in dims]
        return [
            shard
            for dim, shard in enumerate(shards)
            if all(_is_on_all(t.shape[dim], factor, ranks) for t in tensors)
        ]

    def _partials(self, group: Sequence[int]) -> list[Placement]:
        """Partials whose parts differ between the ranks."""
        if self._outs.issuperset(group) or self._may_be_index(group):
            return []
        first = partials_of(self._operands[group[0]].dtype)
        return [p for p in first if all(self._differs(index, p) for index in group)]

    def _may_be_index(self, group: Sequence[int]) -> bool:
        """Integers beside floats: a pending sum of indices means nothing, and not every kernel
        looks whether an index is within its tensor."""
        dtypes = {self._operands[index].dtype for index in group}
        return all(map(_is_integer, dtypes)) and any(
            not _is_integer(operand.dtype) for operand in self._operands
        )

    def _differs(self, operand: int, partial: Partial) -> bool:
        try:
            if self._simulation.has_equal_parts(operand, (partial,)):
                return False
        except Untestable:
            return False
        # Of a few integers or bools too many ops give the right result by chance.
        tensor = self._operands[operand]
        return is_rounded(tensor.dtype) or tensor.numel() >= _ENOUGH

    def __iter__(self) -> Iterator[tuple[Placement, ...]]:
        for index, space in enumerate(self._spaces):
            for chosen in self._bounded(space):
                # Without a strided shard it was among the plain ones.
                if index and not any(isinstance(p, StridedShard) for p in chosen):
                    continue
                yield of_operands(self._groups, chosen)

    def _bounded(self, space: list[list[Placement]]) -> Iterator[tuple[Placement, ...]]:
        total = math.prod(map(len, space))
        if total <= self._limit:
            yield from itertools.product(*space)
            return
        few = list(itertools.islice(_at_most_two(space), self._limit))
        chance = random.Random(total)
        known = set(few)
        while len(known) < min(self._limit, total):
            known.add(tuple(chance.choice(kinds) for kinds in space))
        self.left_out += total - len(known)
        yield from few
        yield from sorted(known.difference(few), key=str)


def _at_most_two(space: list[list[Placement]]) -> Iterator[tuple[Placement, ...]]:
    """Combinations of at most two kinds other than Replicate, any number of operands each."""
    rest = [kinds[1:] for kinds in space]
    present = list(dict.fromkeys(itertools.chain.from_iterable(rest)))
    seen: set[tuple[Placement, ...]] = set()
    for pair in itertools.combinations_with_replacement(present, 2):
        allowed = [[REPLICATE, *(k for k in kinds if k in pair)] for kinds in rest]
        for chosen in itertools.product(*allowed):
            if chosen not in seen:
                seen.add(chosen)
                yield chosen


def output_placements(
    whole: torch.Tensor, local: Sequence[torch.Tensor], factors: Sequence[int]
) -> Iterator[Placement]:
    """Placements that local tensors may have as parts of `whole`, by their shapes and a first look
    at their elements. Replicate first: what holds as that is not looked at further."""
    shapes = [x.shape for x in local]
    if all(shape == whole.shape for shape in shapes):
        yield REPLICATE
        yield from plausible(whole, local, partials_of(whole.dtype))
        return
    ranks = len(local)
    for dim in range(whole.ndim):
        for placement in _shards_of(whole, dim, factors, ranks):
            if tuple(shapes) == local_shapes(whole.shape, [placement], [ranks]):
                yield placement


def all_output_placements(
    whole: torch.Tensor, factors: Sequence[int], ranks: int
) -> Iterator[Placement]:
    """Placements that an output may have, whatever its shape on the ranks."""
    yield REPLICATE
    yield from partials_of(whole.dtype)
    for dim in range(whole.ndim):
        yield from _shards_of(whole, dim, factors, ranks)


def _is_integer(dtype: torch.dtype) -> bool:
    return not is_rounded(dtype) and dtype is not torch.bool


def _is_on_all(size: int, factor: int, ranks: int) -> bool:
    """Does every rank hold something of a sharded dim?"""
    if size < ranks * max(factor, 1):
        return False
    return all(shape[0] for shape in local_shapes((size,), [shard(0, factor)], [ranks]))


def _shards_of(
    whole: torch.Tensor, dim: int, factors: Sequence[int], ranks: int
) -> Iterator[Placement]:
    size = whole.shape[dim]
    yield from (shard(dim, f) for f in (0, *factors) if size >= ranks * max(f, 1))
