"""Rows that hold for all calls of a kind and are claimed for none of them."""

from __future__ import annotations

import functools
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from ... import _torch
from ..._torch import Partial, Placement, Shard, StridedShard
from ..calls.call import Call
from ..simulator.candidates import REPLICATE
from ..simulator.execution import Executable
from ..simulator.explore import Exploration
from ..simulator.simulation import Row

__all__ = ["Example", "MissingRows"]


class Example(NamedTuple):
    """A row that is missing, and a call that shows it.

    Attributes:
        row: The row.
        call: A call for which it holds.
        ranks: The size of the mesh dim.
        others: Reduce ops that the row is missing with as well.
    """

    row: Row
    call: Call
    ranks: int
    others: tuple[str, ...] = ()


@dataclass
class _Kind:
    """Calls whose rows should be the same.

    Attributes:
        holds: Rows that held whenever their operands' placements were tried.
        fails: Rows that did not, once.
        claimed: Placements of the operands that are claimed with outputs that hold.
    """

    holds: dict[Row, Example] = field(default_factory=dict)
    fails: set[Row] = field(default_factory=set)
    claimed: set[tuple[Placement, ...]] = field(default_factory=set)


class MissingRows:
    """Gathers what was explored of an op's calls."""

    def __init__(self) -> None:
        self._kinds: dict[object, _Kind] = {}

    def see(self, call: Call, ranks: int, claimed: Sequence[Row], explored: Exploration) -> None:
        """Take note of one call on one mesh."""
        kind = self._kinds.setdefault(_kind_of(call), _Kind())
        sound = set(explored.sound)
        for row in explored.sound:
            kind.holds.setdefault(row, Example(row, call, ranks))
        outs = Executable(call).outs
        kind.fails |= {
            row
            for row in kind.holds
            if row not in sound and _without(row.inputs, outs) in explored.tried
        }
        kind.claimed |= {row.inputs for row in claimed}

    def found(self) -> Iterator[Example]:
        """The missing rows in their most general form: a strided shard only where the plain one is
        not missing, and likewise ``avg`` beside ``sum``, ``min`` beside ``max``."""
        missing: dict[Row, Example] = {}
        for kind in self._kinds.values():
            for row, example in kind.holds.items():
                if row not in kind.fails and row.inputs not in kind.claimed:
                    missing.setdefault(row, example)
        general: dict[Row, Example] = {}
        for row, example in missing.items():
            if any(isinstance(p, StridedShard) for p in row.inputs):
                plain = tuple(map(_plain, row.inputs))
                if any(plain == other.inputs for other in missing):
                    continue
            head, ops = _general(row, missing)
            known = general.setdefault(head, missing.get(head, example))
            general[head] = known._replace(others=tuple(dict.fromkeys((*known.others, *ops))))
        yield from general.values()


def _without(inputs: tuple[Placement, ...], outs: Sequence[int]) -> tuple[Placement, ...]:
    """The placements with ``out=`` arguments replicated, as they are when rows are tried."""
    return tuple(REPLICATE if index in outs else p for index, p in enumerate(inputs))


_LIKE = ({"avg": "sum"}, {"min": "max", "max": "min"})


def _general(row: Row, missing: Container[Row]) -> tuple[Row, tuple[str, ...]]:
    """The row that stands for this one, and the reduce ops by which they differ."""
    ops = [p.reduce_op for p in row.inputs if type(p) is Partial]
    for like in _LIKE:
        swap = functools.partial(_with_op, like)
        other = Row(tuple(map(swap, row.outputs)), tuple(map(swap, row.inputs)))  # type: ignore[arg-type]
        if ops and ops[0] in ("avg", "min") and other != row and other in missing:
            return other, (ops[0],)
    return row, ()


def _with_op(like: dict[str, str], placement: Placement | None) -> Placement | None:
    if type(placement) is not Partial:
        return placement
    return Partial(like.get(placement.reduce_op, placement.reduce_op))


def _plain(placement: Placement) -> Placement:
    return Shard(placement.dim) if isinstance(placement, StridedShard) else placement


def _kind_of(call: Call) -> object:
    """Equal for calls that differ in nothing but sizes and values.

    A dim of size 1 is broadcast and of another kind, and so are sizes that arguments may repeat.
    """
    leaves, spec = _torch.tree_flatten((call.args, call.kwargs))
    shapes = [
        (leaf.dtype, tuple(size == 1 for size in leaf.shape))
        if isinstance(leaf, torch.Tensor)
        else repr(leaf)
        for leaf in leaves
    ]
    return repr((shapes, spec))
