"""Arguments that torch's cache of decisions leaves out of its keys.

An op's `RuntimeSchemaInfo` says which arguments a decision depends on. For some ops that torch
itself registers it leaves out a number or a flag that the output's shape or strides follow from
(`k` of `topk`, a memory format), a dtype, an ``out=`` tensor, or a tensor given by keyword: a call
that differs in nothing else is given the decision, and the metadata, of the one before.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import NamedTuple

import torch

from .ops import function_schema
from .propagation import propagator
from .registries import came_with_torch, ops_with_a_rule
from .types import OpOverload, RuntimeSchemaInfo

__all__ = ["complete_cache_key_of", "complete_cache_keys", "restore_cache_keys"]


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


# Those of ops that torch decides by their decomposition, which it makes as it meets the ops; None
# where nothing is left out.
_decomposed: dict[OpOverload, _Note | None] = {}
_are_complete = False


def complete_cache_keys() -> None:
    """Have the keys of torch's cache hold what it leaves out; a program's own notes stay."""
    global _are_complete
    _are_complete = True
    for table, op, before, now in (*_notes(), *filter(None, _decomposed.values())):
        if table.get(op) is before:
            table[op] = now


def complete_cache_key_of(op: OpOverload) -> None:
    """The same of an op that is decided by its decomposition, if the others are complete."""
    if not _are_complete or op in _decomposed:
        return
    table = propagator().op_to_schema_info
    before = table.get(op)
    missing = _missing(op, before)
    note = _Note(table, op, before, _completed(op, before, missing)) if missing else None
    _decomposed[op] = note
    if note is not None:
        table[op] = note.now


def restore_cache_keys() -> None:
    """Undo `complete_cache_keys`."""
    global _are_complete
    _are_complete = False
    for table, op, before, now in (*_notes(), *filter(None, _decomposed.values())):
        if table.get(op) is not now:
            continue
        if before is None:
            del table[op]
        else:
            table[op] = before


# As torch writes the types of whole numbers, and of what it keeps as numbers.
_NUMBERS = re.compile(r"(Optional\[)?(List\[)?(int|SymInt)\]*")
# Numbers that say which elements count, not how many there are.
_VALUES = frozenset(("padding_idx",))
# Flags that say which outputs there are, and of which dtype.
_FLAGS = frozenset(("out_int32", "unpack_data", "unpack_pivots"))


@functools.cache
def _notes() -> tuple[_Note, ...]:
    """The notes on ops with a rule of torch's that leave something out."""
    prop = propagator()
    tables = prop.op_to_schema_info, prop.op_to_schema_info_for_single_dim_strategy
    notes = []
    for op in filter(_is_torchs, ops_with_a_rule()):
        table = next((table for table in tables if op in table), tables[0])
        before = table.get(op)
        missing = _missing(op, before)
        if missing:
            notes.append(_Note(table, op, before, _completed(op, before, missing)))
    return tuple(notes)


def _is_torchs(op: OpOverload) -> bool:
    prop = propagator()
    entry = prop.op_single_dim_strategy_funcs.get(op)
    rule = prop.op_strategy_funcs.get(op) or prop.op_to_rules.get(op)
    return came_with_torch(rule if entry is None else entry.func)


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
