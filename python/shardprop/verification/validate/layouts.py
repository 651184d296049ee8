"""The layouts in which a call is carried out: the usual ones first, then a random sample."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import torch

from ..._torch import Partial, Placement, Shard
from ...model.placements import Placements
from ..settings import Settings
from ..simulator.candidates import REPLICATE, of_operands, shard
from ..simulator.compare import is_rounded
from ..simulator.execution import Executable
from ..simulator.simulation import is_replicated

__all__ = ["layouts_to_try"]

# Draws before a sample is taken to have no other layouts.
_DRAWS = 8
_REDUCE_OPS = ("sum", "sum", "avg", "max")
_STRIDED = 0.25

Chosen = tuple[Placement, ...]


def layouts_to_try(
    executable: Executable, sizes: tuple[int, ...], settings: Settings, chance: random.Random
) -> Iterator[tuple[Placements, ...]]:
    """Layouts of all operands, at most `settings.layouts` of them, operands of one list alike.

    Shards may be uneven, and some ranks may have none of a tensor.
    """
    operands = executable.operands
    groups = [[operands[at] for at in group] for group in executable.groups]
    usual = [*_usual(groups)]
    chance.shuffle(usual)
    seen: set[tuple[Chosen, ...]] = set()
    for number in range(settings.layouts * _DRAWS):
        reduce_op = chance.choice(_REDUCE_OPS)
        drawn = [
            usual[number]
            if len(sizes) == 1 and number < len(usual)
            else _drawn(groups, usual, reduce_op, chance)
            for _ in sizes
        ]
        columns = [*zip(*drawn, strict=True)]
        if settings.strided_factors:
            columns = [_maybe_strided(column, sizes, chance) for column in columns]
        if len(seen) == settings.layouts:
            return
        if tuple(columns) in seen or all(map(is_replicated, columns)) or _mixed(columns):
            continue
        seen.add(tuple(columns))
        layouts = [of_operands(executable.groups, on_dim) for on_dim in zip(*columns, strict=True)]
        yield tuple(zip(*layouts, strict=True))


def _usual(groups: Sequence[Sequence[torch.Tensor]]) -> Iterator[Chosen]:
    """On one mesh dim: all operands cut along a dim, one of them alone, or pending."""
    for dim in range(max((tensor.ndim for group in groups for tensor in group), default=0)):
        yield tuple(_cut(group, dim) for group in groups)
    for at, group in enumerate(groups):
        alone = [_cut(group, dim) for dim in range(max(tensor.ndim for tensor in group))]
        for placement in (*alone, *_pending(group, "sum")):
            yield tuple(placement if at == other else REPLICATE for other in range(len(groups)))


def _cut(group: Sequence[torch.Tensor], dim: int) -> Placement:
    """A shard, where all tensors of the group have the dim and elements in it."""
    fits = all(tensor.ndim > dim and tensor.shape[dim] > 1 for tensor in group)
    return shard(dim, 0) if fits else REPLICATE


def _pending(group: Sequence[torch.Tensor], reduce_op: str) -> list[Placement]:
    """Partials of floats: a pending sum of integers may be one of indices."""
    dtypes = {tensor.dtype for tensor in group}
    fits = all(map(is_rounded, dtypes)) and not (
        reduce_op == "max" and any(dtype.is_complex for dtype in dtypes)
    )
    return [Partial(reduce_op)] if fits else []


def _drawn(
    groups: Sequence[Sequence[torch.Tensor]],
    usual: Sequence[Chosen],
    reduce_op: str,
    chance: random.Random,
) -> Chosen:
    """One of the usual ones, or anything."""
    if usual and chance.random() < 0.5:
        return chance.choice(usual)
    return tuple(
        chance.choice(
            [
                REPLICATE,
                *(_cut(group, dim) for dim in range(max(tensor.ndim for tensor in group))),
                *_pending(group, reduce_op),
            ]
        )
        for group in groups
    )


def _maybe_strided(column: Chosen, sizes: tuple[int, ...], chance: random.Random) -> Chosen:
    """A dim that two mesh dims cut, now and then by the second of them first."""
    first, *others = column
    if [first] == others and isinstance(first, Shard) and chance.random() < _STRIDED:
        return (shard(first.dim, sizes[1]), first)
    return column


def _mixed(columns: Sequence[Chosen]) -> bool:
    """Has a tensor two kinds of Partial? Those cannot be reduced in any order."""
    return any(len({str(p) for p in column if isinstance(p, Partial)}) > 1 for column in columns)
