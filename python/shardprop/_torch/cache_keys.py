"""Arguments that torch's cache of decisions leaves out of its keys.

An op's `RuntimeSchemaInfo` says which arguments a decision depends on. For some ops that torch
itself registers it leaves out a number or a flag that the output's shape or strides follow from
(`k` of `topk`, a memory format), a dtype, an ``out=`` tensor, or a tensor given by keyword: a call
that differs in nothing else is given the decision, and the metadata, of the one before.
"""

from __future__ import annotations

import dataclasses
import re
import threading
from typing import NamedTuple

import torch

from .ops import function_schema
from .propagation import propagator
from .registries import came_with_torch, ops_with_a_rule, put_back
from .types import OpOverload, RuntimeSchemaInfo

__all__ = [
    "complete_cache_key_of",
    "complete_cache_keys",
    "restore_cache_keys",
    "settle_cache_key",
]


class _Note(NamedTuple):
    """A note on an op's arguments, and the one to put in its place.

    Attributes:
        table: That in which torch finds the note first.
        op: The op.
        before: torch's note; None where it has none.
        now: The same with what it leaves out.
    """

    table: dict[OpOverload, RuntimeSchemaInfo]
    op: OpOverload
    before: RuntimeSchemaInfo | None
    now: RuntimeSchemaInfo


# Per op the last that was made; it is in place while the keys are complete.
_notes: dict[OpOverload, _Note] = {}
# What torch notes of ops that are complete as they are.
_as_they_are: dict[OpOverload, RuntimeSchemaInfo | None] = {}
# Ops that torch decides by their decomposition, which it makes as it meets the ops.
_decomposed: set[OpOverload] = set()
_are_complete = False
_lock = threading.Lock()


def complete_cache_keys() -> None:
    """Have the keys of torch's cache hold what it leaves out; a program's own notes stay."""
    global _are_complete
    with _lock:
        _are_complete = True
        for op in (*ops_with_a_rule(), *_decomposed):
            _complete(op)


def complete_cache_key_of(op: OpOverload) -> None:
    """The same of an op that is decided by its decomposition, if the others are complete."""
    if not _are_complete or op in _decomposed:
        return
    with _lock:
        _decomposed.add(op)
        if _are_complete:
            _complete(op)


def settle_cache_key(op: OpOverload) -> None:
    """Told that the notes on an op have changed: they are completed, or as torch has them, as the
    others are."""
    with _lock:
        (_complete if _are_complete else _put_back)(op)


def restore_cache_keys() -> None:
    """Undo `complete_cache_keys`."""
    global _are_complete
    with _lock:
        _are_complete = False
        for op in _notes:
            _put_back(op)


def _put_back(op: OpOverload) -> None:
    if op in _notes:
        table, _, before, now = _notes[op]
        put_back(table, op, now, before)


def _complete(op: OpOverload) -> None:
    if op not in _decomposed and not _is_torchs(op):
        return
    prop = propagator()
    tables = prop.op_to_schema_info, prop.op_to_schema_info_for_single_dim_strategy
    table = next((table for table in tables if op in table), tables[0])
    before = table.get(op)
    known = _notes.get(op)
    if known is not None and known.table is table and any(before is x for x in known[2:]):
        table[op] = known.now
        return
    if op in _as_they_are and _as_they_are[op] is before:
        return
    missing = _missing(op, before)
    if missing:
        _notes[op] = _Note(table, op, before, _completed(op, before, missing))
        table[op] = _notes[op].now
    else:
        _as_they_are[op] = before


# As torch writes the types of whole numbers, and of what it keeps as numbers.
_NUMBERS = re.compile(r"(Optional\[)?(List\[)?(int|SymInt)\]*")
# Which elements count, not how many there are; and what has one value for all that are placed.
_VALUES = frozenset(("padding_idx", "layout"))
# Flags that say which outputs there are, and of which dtype.
_FLAGS = frozenset(("out_int32", "unpack_data", "unpack_pivots"))


def _is_torchs(op: OpOverload) -> bool:
    prop = propagator()
    entry = prop.op_single_dim_strategy_funcs.get(op)
    rule = prop.op_strategy_funcs.get(op) or prop.op_to_rules.get(op)
    return came_with_torch(op, rule if entry is None else entry.func)


def _missing(op: OpOverload, note: RuntimeSchemaInfo | None) -> frozenset[str]:
    """Arguments that a decision may depend on, and that are no part of its key: whole numbers and
    lists of them (dtypes and memory formats are numbers, too), ``out=``, and tensors given by
    keyword. (Those by position are part of each.) Scalars are values."""
    note = note or RuntimeSchemaInfo()
    keyword = note.static_kwargkey or ()
    return frozenset(
        argument.name
        for place, argument in enumerate(function_schema(op).arguments)
        if (argument.kwarg_only and "Tensor" in str(argument.type)) or _says_what_is_made(argument)
        if (argument.name not in keyword if argument.kwarg_only else place < note.static_argnum)
    )


def _says_what_is_made(argument: torch.Argument) -> bool:
    name = argument.name
    return name in _FLAGS or (
        name not in _VALUES and _NUMBERS.fullmatch(str(argument.type)) is not None
    )


def _completed(
    op: OpOverload, note: RuntimeSchemaInfo | None, names: frozenset[str]
) -> RuntimeSchemaInfo:
    note = note or RuntimeSchemaInfo()
    keyword, first = [*(note.static_kwargkey or ())], note.static_argnum
    for place, argument in enumerate(function_schema(op).arguments):
        if argument.name in names and argument.kwarg_only:
            keyword.append(argument.name)
        elif argument.name in names:
            first = min(first, place)
    return dataclasses.replace(note, static_argnum=first, static_kwargkey=keyword or None)
