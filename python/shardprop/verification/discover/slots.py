"""The places of an op's tensors: one slot for every tensor argument and for every result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..._torch import OpOverload, function_schema
from .rows import ABSENT, Row

__all__ = ["Signature", "Slot", "signature_of", "tensors_by_slot"]


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
    if len(function_schema(op).returns) == 1:
        results = [results]
    values = [arguments.get(slot.name) for slot in signature.operands]
    values += [
        value
        for value, result in zip(results, function_schema(op).returns, strict=True)
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


def by_slot(cells: Sequence[str], lengths: Sequence[int]) -> Row | None:
    """Cells of all tensors as one cell per slot; None if a list's tensors differ in theirs."""
    row: list[str] = []
    start = 0
    for length in lengths:
        here = set(cells[start : start + length])
        start += length
        if len(here) > 1:
            return None
        row.append(here.pop() if here else ABSENT)
    return tuple(row)
