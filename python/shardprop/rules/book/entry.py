"""One row of the rule book."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from ..._torch import DTensorSpec, OpOverload, Placement, TensorMeta, function_schema

__all__ = ["Entry", "Scalar", "are_equal", "is_scalar", "operand_names"]

Scalar: TypeAlias = bool | int | float | str | None


@dataclass(frozen=True)
class Entry:
    """A row that held for every call of a kind that was tried.

    Attributes:
        operands: The names of the arguments that are tensors.
        inputs: Their placements on one mesh dim, in that order.
        outputs: Those of the outputs; None for one that is absent.
        argument: An argument on whose value it depends; None: on none.
        value: The value that this argument has to have.
        is_rounded: Does it hold for floating-point and complex numbers only (flags aside)?
        calls: How many calls it was tried on.
        runs: How often the op was run for that.
    """

    operands: tuple[str, ...]
    inputs: tuple[Placement, ...]
    outputs: tuple[Placement | None, ...]
    argument: str | None
    value: Scalar
    is_rounded: bool
    calls: int
    runs: int


def is_scalar(value: object) -> bool:
    """May a row depend on such a value?"""
    return value is None or isinstance(value, (bool, int, float, str))


def are_equal(one: object, other: object) -> bool:
    """Are two values one to an op? 0 and 0.0 are, and 0 and False are not."""
    return isinstance(one, bool) is isinstance(other, bool) and one == other


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
