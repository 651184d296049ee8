"""The rule book: rows of pending sums by op, as they were proved."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._torch import (
    DTensorSpec,
    OpOverload,
    Partial,
    Placement,
    Replicate,
    TensorMeta,
    function_schema,
)
from .entry import Entry, are_equal, operand_names

__all__ = ["Book"]

_FILE = Path(__file__).with_name("rows.json")
_WHOLE, _PENDING = Replicate(), Partial("sum")
_PLACEMENTS: dict[str, Placement | None] = {"R": _WHOLE, "P": _PENDING, "-": None}
_NAMES = {placement: name for name, placement in _PLACEMENTS.items()}


@dataclass(frozen=True)
class Book:
    """Rows that hold for every call of a kind.

    Attributes:
        versions: Of torch, under each of which every row was proved.
        entries: By the name of the op.
    """

    versions: tuple[str, ...]
    entries: Mapping[str, Sequence[Entry]]

    @classmethod
    @functools.cache
    def shipped(cls) -> Book:
        """That which comes with the package."""
        return cls.from_text(_FILE.read_text(encoding="utf-8"))

    @classmethod
    def of(cls, proved: Mapping[str, Sequence[Entry]], versions: Sequence[str]) -> Book:
        """A book of what was proved."""
        kept = {op: tuple(entries) for op, entries in sorted(proved.items()) if entries}
        return cls(tuple(versions), kept)

    def confirmed(self, proved: Mapping[str, Sequence[Entry]], version: str) -> Book:
        """What of it was proved under another version of torch, too, and the ops that are not
        there in one of them."""
        kept: dict[str, Sequence[Entry]] = {}
        for op in {*self.entries, *proved}:
            here, there = self.entries.get(op), proved.get(op)
            if here is None or there is None:
                kept[op] = here or there or ()
            else:
                known = {_claim(entry) for entry in there}
                kept[op] = [entry for entry in here if _claim(entry) in known]
        return Book.of(kept, [*self.versions, version])

    def rows(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[list[Placement | None]]:
        """The rows that hold for a call, tensors being TensorMeta or specs: cells of outputs, then
        of operands."""
        entries = self.entries.get(str(op))
        if entries is None:
            return []
        names = operand_names(op, args, kwargs)
        return [
            [*entry.outputs, *entry.inputs]
            for entry in entries
            if entry.operands == names and _takes(entry, op, args, kwargs)
        ]

    @classmethod
    def from_text(cls, text: str) -> Book:
        """The book in JSON."""
        read = json.loads(text)
        entries = {op: tuple(map(_entry, rows)) for op, rows in read["ops"].items()}
        return cls(tuple(read["torch"]), entries)

    def text(self) -> str:
        """The book in JSON, a line for each row."""
        ops = ",\n".join(map(_op_text, self.entries, self.entries.values()))
        return f'{{"torch": {json.dumps(self.versions)}, "ops": {{\n{ops}\n}}}}\n'

    def write(self) -> None:
        """Have it be what comes with the package."""
        _FILE.write_text(self.text(), encoding="utf-8")


def _claim(entry: Entry) -> object:
    """What an entry says, without how it was found."""
    return (
        *(entry.operands, entry.inputs, entry.outputs),
        *(entry.argument, repr(entry.value), entry.is_rounded),
    )


def _op_text(op: str, entries: Sequence[Entry]) -> str:
    rows = ",\n".join(json.dumps(_values(entry)) for entry in entries)
    return f"{json.dumps(op)}: [\n{rows}\n]"


def _values(entry: Entry) -> dict[str, Any]:
    cells = [" ".join(_NAMES[p] for p in cells) for cells in (entry.inputs, entry.outputs)]
    found: dict[str, Any] = {"of": " ".join(entry.operands), "row": " -> ".join(cells)}
    if entry.argument is not None:
        found["where"] = {entry.argument: entry.value}
    if entry.is_rounded:
        found["rounded"] = True
    return {**found, "calls": entry.calls, "runs": entry.runs}


def _entry(values: Mapping[str, Any]) -> Entry:
    inputs, outputs = (
        tuple(_PLACEMENTS[name] for name in cells.split()) for cells in values["row"].split(" -> ")
    )
    (where,) = values.get("where", {}).items() or [(None, None)]
    return Entry(
        operands=tuple(values["of"].split()),
        inputs=inputs,  # type: ignore[arg-type]
        outputs=outputs,
        argument=where[0],
        value=where[1],
        is_rounded=values.get("rounded", False),
        calls=values["calls"],
        runs=values["runs"],
    )


def _takes(entry: Entry, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Is a call of the entry's kind?"""
    if entry.is_rounded and not all(map(_is_rounded, (*args, *kwargs.values()))):
        return False
    if entry.argument is None:
        return True
    return are_equal(_argument(op, entry.argument, args, kwargs), entry.value)


def _is_rounded(value: object) -> bool:
    meta = value.tensor_meta if isinstance(value, DTensorSpec) else value
    dtype = meta.dtype if isinstance(meta, TensorMeta) else None
    if dtype is None:
        return True
    return dtype.is_floating_point or dtype.is_complex or str(dtype) == "torch.bool"


def _argument(op: OpOverload, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    for position, argument in enumerate(function_schema(op).arguments):
        if argument.name == name:
            given = kwargs.get(name, argument.default_value)
            return args[position] if position < len(args) else given
    return None
