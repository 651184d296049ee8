"""One row of the rule book."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..._torch import DTensorSpec, OpOverload, Placement, TensorMeta, function_schema

__all__ = ["Entry", "is_zero", "operand_names"]


@dataclass(frozen=True)
class Entry:
    """A row that held for every call of a kind that was tried, its pending operands and outputs
    being floating-point or complex numbers.

    Attributes:
        operands: The names of the arguments that are tensors.
        inputs: Their placements on one mesh dim, in that order.
        outputs: Those of the outputs; None for one that is absent.
        zero: A number among the arguments that has to be 0; None: there is none.
        calls: How many calls, that differ in more than their values, said something for it.
        runs: How often the op was run for that.
    """

    operands: tuple[str, ...]
    inputs: tuple[Placement, ...]
    outputs: tuple[Placement | None, ...]
    zero: str | None
    calls: int
    runs: int


def is_zero(value: object) -> bool:
    """Is it a number, and 0?"""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0


def operand_names(
    op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, ...] | None:
    """The names of the arguments that are tensors, in their order; None if some are in lists."""
    kinds = (torch.Tensor, TensorMeta, DTensorSpec)
    names: list[str] = []
    for position, argument in enumerate(function_schema(op).arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        if isinstance(value, kinds):
            names.append(argument.name)
        elif isinstance(value, (list, tuple)) and any(isinstance(item, kinds) for item in value):
            return None
    return tuple(names)
