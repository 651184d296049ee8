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
    release,
)
from .entry import Entry, is_zero, operand_names

__all__ = ["Book"]

_FILE = Path(__file__).with_name("rows.json")
_WHOLE, _PENDING = Replicate(), Partial("sum")
_PLACEMENTS: dict[str, Placement | None] = {"R": _WHOLE, "P": _PENDING, "-": None}
_NAMES = {placement: name for name, placement in _PLACEMENTS.items()}


@dataclass(frozen=True)
class Book:
    """Rows that hold for every call of a kind.

    Attributes:
        versions: Of torch, under each of which every row was proved whose op is there.
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
    @functools.cache
    def in_force(cls) -> Book:
        """That one under a version of torch (patches aside) that it was proved under; elsewhere an
        empty one."""
        shipped = cls.shipped()
        return shipped if release() in map(_without_patch, shipped.versions) else cls((), {})

    @classmethod
    def of(cls, proved: Mapping[str, Sequence[Entry]], versions: Sequence[str]) -> Book:
        """A book of what was proved."""
        kept = {op: tuple(entries) for op, entries in sorted(proved.items()) if entries}
        return cls(tuple(versions), kept)

    def confirmed(self, proved: Mapping[str, Sequence[Entry]], version: str) -> Book:
        """What of it was proved under another version of torch, too: of the ops that were tried
        there, each with what was proved of it. An op that is not there keeps its rows."""
        kept: dict[str, Sequence[Entry]] = {}
        for op, entries in self.entries.items():
            there = {_claim(entry) for entry in proved.get(op, entries)}
            kept[op] = [entry for entry in entries if _claim(entry) in there]
        return Book.of(kept, [*self.versions, version])

    def rows(
        self,
        op: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outputs: Sequence[TensorMeta | None],
    ) -> list[list[Placement | None]]:
        """The rows that hold for a call, tensors being TensorMeta or specs: cells of outputs, then
        of operands."""
        entries = self.entries.get(str(op))
        if entries is None:
            return []
        names = operand_names(op, args, kwargs)
        operands = [meta for value in (*args, *kwargs.values()) if (meta := _meta(value))]
        return [
            [*entry.outputs, *entry.inputs]
            for entry in entries
            if entry.operands == names
            and _are_rounded(entry.inputs, operands)
            and _are_rounded(entry.outputs, outputs)
            and (entry.zero is None or is_zero(_argument(op, entry.zero, args, kwargs)))
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
    return entry.operands, entry.inputs, entry.outputs, entry.zero


def _without_patch(release: str) -> str:
    return ".".join(release.split(".")[:2])


def _op_text(op: str, entries: Sequence[Entry]) -> str:
    rows = ",\n".join(json.dumps(_values(entry)) for entry in entries)
    return f"{json.dumps(op)}: [\n{rows}\n]"


def _values(entry: Entry) -> dict[str, Any]:
    cells = [" ".join(_NAMES[p] for p in cells) for cells in (entry.inputs, entry.outputs)]
    found: dict[str, Any] = {"of": " ".join(entry.operands), "row": " -> ".join(cells)}
    if entry.zero is not None:
        found["zero"] = entry.zero
    return {**found, "calls": entry.calls, "runs": entry.runs}


def _entry(values: Mapping[str, Any]) -> Entry:
    inputs, outputs = (
        tuple(_PLACEMENTS[name] for name in cells.split()) for cells in values["row"].split(" -> ")
    )
    return Entry(
        operands=tuple(values["of"].split()),
        inputs=inputs,  # type: ignore[arg-type]
        outputs=outputs,
        zero=values.get("zero"),
        calls=values["calls"],
        runs=values["runs"],
    )


def _meta(value: object) -> TensorMeta | None:
    if isinstance(value, DTensorSpec):
        return value.tensor_meta
    return value if isinstance(value, TensorMeta) else None


def _is_rounded(meta: TensorMeta) -> bool:
    return meta.dtype.is_floating_point or meta.dtype.is_complex


def _are_rounded(cells: Sequence[Placement | None], metas: Sequence[TensorMeta | None]) -> bool:
    """Are those that are pending floating-point or complex numbers, and those absent that are?"""
    if len(cells) != len(metas):
        return False
    for cell, meta in zip(cells, metas, strict=True):
        if (cell is None) is not (meta is None):
            return False
        if cell == _PENDING and meta is not None and not _is_rounded(meta):
            return False
    return True


def _argument(op: OpOverload, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    for position, argument in enumerate(function_schema(op).arguments):
        if argument.name == name:
            given = kwargs.get(name, argument.default_value)
            return args[position] if position < len(args) else given
    return None
