"""The places of an op's tensors: one slot for every tensor argument and for every result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..._torch import OpOverload, function_schema
from ...model.op_traits import traits_of
from .rows import ABSENT, Row, cell_of

__all__ = [
    "Signature",
    "Slot",
    "as_returns",
    "by_slot",
    "row_of",
    "signature_of",
    "tensors_by_slot",
]


@dataclass(frozen=True)
class Slot:
    """A tensor argument or a result of an op.

    Attributes:
        name: The argument's name; ``"out0"`` for a result that has none.
        is_list: A list of tensors, which a rule treats alike.
    """

    name: str
    is_list: bool


@dataclass(frozen=True)
class Signature:
    """All slots of an op, operands first.

    Attributes:
        operands: The tensor arguments in the order of a rule, keyword arguments last.
        outputs: The results.
    """

    operands: tuple[Slot, ...]
    outputs: tuple[Slot, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Operands, then outputs."""
        return self.operands + self.outputs


def signature_of(op: OpOverload) -> Signature:
    """The slots of an op, from its schema."""
    arguments = sorted(function_schema(op).arguments, key=lambda argument: argument.kwarg_only)
    operands = tuple(
        Slot(argument.name, _is_list(argument.type))
        for argument in arguments
        if "Tensor" in str(argument.type)
    )
    outputs = tuple(
        Slot(result.name or f"out{at}", _is_list(result.type))
        for at, result in enumerate(function_schema(op).returns)
        if "Tensor" in str(result.type)
    )
    return Signature(operands, outputs)


def _is_list(kind: object) -> bool:
    return "List" in str(kind)


def tensors_by_slot(
    op: OpOverload, arguments: dict[str, Any], results: Any
) -> list[list[torch.Tensor]] | None:
    """The tensors of a call in each slot, none where an optional one is not given.

    None where a slot has no one shape for a rule to speak of: a list with gaps, or with tensors of
    different numbers of dims.
    """
    signature = signature_of(op)
    values = [arguments.get(slot.name) for slot in signature.operands]
    values += [
        value
        for value, result in zip(as_returns(op, results), function_schema(op).returns, strict=True)
        if "Tensor" in str(result.type)
    ]
    found: list[list[torch.Tensor]] = []
    for value in values:
        tensors = list(value) if isinstance(value, (list, tuple)) else [value]
        given = [tensor for tensor in tensors if isinstance(tensor, torch.Tensor)]
        if len(given) not in (0, len(tensors)) or len({t.ndim for t in given}) > 1:
            return None
        found.append(given)
    return found


def as_returns(op: OpOverload, results: Any) -> list[Any]:
    """What an op returned, one for each result that its schema names; a list for a list."""
    return [results] if traits_of(op).returns == 1 else list(results)


def row_of(placements: Sequence[object], lengths: Sequence[int]) -> Row | None:
    """Placements of all tensors, operands first, as a row; None if a rule's text has no word for
    one of them, or nothing to say."""
    cells = [cell for placement in placements if (cell := cell_of(placement)) is not None]
    row = by_slot(cells, lengths) if len(cells) == len(placements) else None
    return row if row is not None and set(row) - {ABSENT, "R"} else None


def by_slot(cells: Sequence[str], lengths: Sequence[int]) -> Row | None:
    """Cells of all tensors as one cell per slot; None if there are more or fewer of them, or if the
    tensors of a list differ in theirs."""
    if len(cells) != sum(lengths):
        return None
    row: list[str] = []
    start = 0
    for length in lengths:
        here = set(cells[start : start + length])
        start += length
        if len(here) > 1:
            return None
        row.append(here.pop() if here else ABSENT)
    return tuple(row)
