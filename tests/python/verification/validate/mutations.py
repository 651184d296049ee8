"""Faults put into rules that are right: one row of a rule changed in one of five ways.

A mutant is a row in another's place: a wrong dim, Partial for Replicate, a missing operand (whole
where it is to be sharded), a wrong reduce op, two outputs swapped. What is an operand as well (in
place, ``out=``) is changed together with it: torch never uses a row where the two differ, nor one
that shards a dim of fewer elements than ranks.

Not every change is a fault. Some give another row that holds: of a linear op a Partial may be in
either operand, a maximum of maxima is one, and a rule need not list all that holds. So a mutant
counts only if it is proven wrong without the validator:

- a row that the rule lists anyway is none;
- `oracle.holds` has to refute the row, for a call of the op with data, parts and double precision
  of its own. It shares no code with the validator. Refuting is proof: one layout of one call for
  which the op on the pieces does not give its result is a counterexample to the row, whatever else
  holds. What it cannot refute in all its trials is thrown away as equivalent, and counted.

The oracle's word is trustworthy the other way round too: no row of the unmutated rules is refuted,
which a test asserts.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch.distributed.tensor import Partial, Placement, Replicate, Shard

from shardprop import _torch
from shardprop.rules.placeholder import ShardingPlaceholder
from shardprop.verification.calls.call import Call

from . import oracle
from .sound_rules import SOUND, Rows, Sound

__all__ = ["KINDS", "Mutant", "Mutations", "is_refuted", "is_used", "mutations"]

Row = list[Any]

_SHARDS = (Shard, _torch.ShardingPlaceholder)
_RANKS = (2, 3)
_TRIALS = (101, 102, 103)

# How many of each, a hundred in all.
KINDS = {
    "wrong dim": 25,
    "Partial for Replicate": 25,
    "missing operand": 20,
    "wrong reduce op": 20,
    "swapped outputs": 10,
}


@dataclass(frozen=True)
class Mutant:
    """A rule with one row that is wrong.

    Attributes:
        sound: The rule without the fault.
        kind: The kind of fault.
        before: The row that was right.
        after: What stands in its place.
    """

    sound: Sound
    kind: str
    before: Row
    after: Row

    def rows(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Rows:
        """The rule: the row is changed wherever it is listed."""
        return [
            self.after if _same(row, self.before) else [*row]
            for row in self.sound.rule(op, args, kwargs)
        ]

    def __str__(self) -> str:
        was, is_now = (self.text(row) for row in (self.before, self.after))
        return f"{self.sound.op}, {self.kind}: {was}  became  {is_now}"

    def text(self, row: Row) -> str:
        """A row in the words of the report."""
        outputs, inputs = self.sound.placements(row, self.sound.outputs(self.sound.calls(0)[0]))
        return f"{', '.join(map(str, inputs))} -> {', '.join(map(str, outputs))}"


@dataclass(frozen=True)
class Mutations:
    """What was drawn.

    Attributes:
        mutants: Rules that are wrong, proven so.
        thrown_away: Changes that the oracle did not refute, by kind.
    """

    mutants: list[Mutant]
    thrown_away: Counter[str]


def mutations(seed: int) -> Mutations:
    """A hundred mutants, of each kind as many as `KINDS` says, spread over the ops."""
    chance = random.Random(seed)
    drawn = Mutations([], Counter())
    for kind, count in KINDS.items():
        found = 0
        for mutant in _spread([*_mutants(kind)], chance):
            if found == count:
                break
            if is_refuted(mutant.sound, mutant.after, _calls_of(mutant)):
                drawn.mutants.append(mutant)
                found += 1
            else:
                drawn.thrown_away[kind] += 1
    return drawn


def is_refuted(sound: Sound, row: Row, calls: Sequence[Call]) -> bool:
    """Is there a call, a mesh and data for which the row gives another result?"""
    outputs, inputs = sound.placements(row, sound.outputs(calls[0]))
    if not sound.op._schema.returns:  # then all that it may have written to is looked at
        outputs = inputs
    return not all(
        oracle.holds(call.op, call.args, call.kwargs, inputs, outputs, ranks, seed)
        for call, ranks, seed in itertools.product(calls, _RANKS, _TRIALS)
    )


def _calls_of(mutant: Mutant) -> list[Call]:
    """The calls for which the rule lists the row, with data that no other test sees."""
    calls = itertools.chain.from_iterable(map(mutant.sound.calls, _TRIALS))
    return [c for c in calls if any(_same(row, mutant.before) for row in mutant.sound.rows(c))]


def _spread(mutants: list[Mutant], chance: random.Random) -> list[Mutant]:
    """In a random order, in which every op comes once before one comes for the second time."""
    chance.shuffle(mutants)
    turn: Counter[Any] = Counter()
    turns = []
    for mutant in mutants:
        turns.append(turn[mutant.sound.op])
        turn[mutant.sound.op] += 1
    return [mutants[i] for i in sorted(range(len(mutants)), key=turns.__getitem__)]


def _mutants(kind: str) -> Iterator[Mutant]:
    """All of a kind: each changes a row of the rule into one that it does not list."""
    for sound in SOUND:
        known: Rows = []
        for call in sound.calls(0):
            rows = sound.rows(call)
            for before in rows:
                if any(_same(before, row) for row in known) or not is_used(sound, before):
                    continue
                known.append(before)
                for after in _CHANGES[kind](sound, call, before):
                    if not any(_same(after, row) for row in rows):
                        yield Mutant(sound, kind, before, after)


# --- the five kinds of changes


def _wrong_dim(sound: Sound, call: Call, row: Row) -> Iterator[Row]:
    shapes = [tensor.shape for tensor in sound.cells(call)]
    for cell, placement in enumerate(row):
        if isinstance(placement, _SHARDS):
            for dim, size in enumerate(shapes[cell]):
                if dim != placement.dim and size >= max(_RANKS):
                    yield _changed(sound, row, cell, ShardingPlaceholder(dim))


def _partial_for_replicate(sound: Sound, call: Call, row: Row) -> Iterator[Row]:
    for cell, placement in enumerate(row):
        if isinstance(placement, Replicate) and not _is_replicated(row):
            for op in sound.reduce_ops(call, cell):
                yield _changed(sound, row, cell, Partial(op))


def _missing_operand(sound: Sound, call: Call, row: Row) -> Iterator[Row]:
    for cell in range(sound.outputs(call), len(row)):
        if isinstance(row[cell], _SHARDS):
            after = _changed(sound, row, cell, Replicate())
            if not _is_replicated(after[sound.outputs(call) :]):
                yield after


def _wrong_reduce_op(sound: Sound, call: Call, row: Row) -> Iterator[Row]:
    for cell, placement in enumerate(row):
        if isinstance(placement, Partial):
            for op in sound.reduce_ops(call, cell):
                if op != placement.reduce_op:
                    yield _changed(sound, row, cell, Partial(op))


def _swapped_outputs(sound: Sound, call: Call, row: Row) -> Iterator[Row]:
    ndims = [tensor.ndim for tensor in sound.cells(call)]
    for a, b in itertools.combinations(range(sound.outputs(call)), 2):
        after = [*row]
        after[a], after[b] = row[b], row[a]
        # A dim that the output has not is refused by whoever reads the rule.
        dims = [after[c].dim < ndims[c] for c in (a, b) if isinstance(after[c], _SHARDS)]
        if all(dims) and not _same(after, row):
            yield after


_CHANGES: dict[str, Callable[[Sound, Call, Row], Iterator[Row]]] = {
    "wrong dim": _wrong_dim,
    "Partial for Replicate": _partial_for_replicate,
    "missing operand": _missing_operand,
    "wrong reduce op": _wrong_reduce_op,
    "swapped outputs": _swapped_outputs,
}


def _changed(sound: Sound, row: Row, cell: int, placement: Any) -> Row:
    """The row with another cell; of an output that is an operand, both are changed."""
    after = [*row]
    after[cell] = placement
    outputs = len(sound.tied)
    for output, operand in sound.tied:
        if cell in (output, outputs + operand):
            after[output] = after[outputs + operand] = placement
    return after


def is_used(sound: Sound, row: Row) -> bool:
    """Does torch use the row, and not just list it, and can it be tried on pieces of tensors?

    Not where an output is an operand that is placed otherwise; nor where a mask is needed, as of an
    embedding. The elements of a list are decided by price alone, and what has a Partial may then
    stand behind a row that makes one of a replica, which costs nothing.
    """
    outputs = len(sound.tied)
    if any(not _same([row[a]], [row[outputs + b]]) for a, b in sound.tied):
        return False
    kinds = (Replicate, *_SHARDS) if sound.length else (Replicate, *_SHARDS, Partial)
    plain = all(type(cell) is Partial or not isinstance(cell, Partial) for cell in row)
    return plain and all(isinstance(cell, kinds) for cell in row) and not _is_replicated(row)


def _is_replicated(row: Sequence[Any]) -> bool:
    return all(isinstance(cell, Replicate) for cell in row)


def _same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    return [_filled(cell) for cell in first] == [_filled(cell) for cell in second]


def _filled(cell: Any) -> Placement:
    return Shard(cell.dim) if isinstance(cell, _torch.ShardingPlaceholder) else cell
