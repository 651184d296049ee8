"""The in-place and ``out=`` forms of an op, and their rules, which follow from that of the op."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from .._torch import OpOverload, ShardingPlaceholder, function_schema
from ..model.op_traits import traits_of
from ..model.operands import operands_of
from .registered import RuleFunction
from .row_check import check_rows

__all__ = ["Variant", "rule_of_variant", "variants_of"]


class Variant(NamedTuple):
    """A form of an op that writes its result into an argument.

    Attributes:
        op: The overload.
        written: The arguments it writes into, one for each output of the functional op.
        in_place: It is an operand of the functional op, not one more.
    """

    op: OpOverload
    written: tuple[str, ...]
    in_place: bool


def variants_of(op: OpOverload) -> list[Variant]:
    """The in-place and ``out=`` forms of an op that is functional and returns tensors.

    Those are overloads of the op itself, or of the op of the same name with ``_`` or ``_out``
    added, whose arguments have the same names and types but for what they write into.
    """
    returns = function_schema(op).returns
    if function_schema(op).is_mutable or not returns:
        return []
    if not all(isinstance(each.type, torch.TensorType) for each in returns):
        return []
    found = (_as_variant(op, other) for other in _relatives(op))
    return [variant for variant in found if variant is not None]


def _relatives(op: OpOverload) -> Iterator[OpOverload]:
    namespace, _, name = function_schema(op).name.partition("::")
    for suffix in ("", "_", "_out"):
        packet = getattr(getattr(torch.ops, namespace), name + suffix, None)
        if packet is not None:
            yield from (getattr(packet, overload) for overload in packet.overloads())


def _as_variant(op: OpOverload, other: OpOverload) -> Variant | None:
    asked, offered = function_schema(op).arguments, function_schema(other).arguments
    extra = offered[len(asked) :]
    if len(offered) < len(asked) or [*map(_form, asked)] != [*map(_form, offered[: len(asked)])]:
        return None
    returned = len(function_schema(other).returns)
    written = tuple(a.name for a in offered if a.alias_info and a.alias_info.is_write)
    outputs = len(function_schema(op).returns)
    if len(written) != outputs or returned not in (0, outputs):
        return None
    if not extra:
        return Variant(other, written, in_place=True) if outputs == 1 else None
    if tuple(a.name for a in extra) != written:
        return None
    # torch's dispatcher takes the layout of an ``out=`` tensor from what the op returns.
    is_out = any(a.kwarg_only for a in extra)
    return None if is_out and not returned else Variant(other, written, in_place=False)


def _form(argument: Any) -> tuple[str, str, bool]:
    return argument.name, str(argument.type), argument.kwarg_only


def rule_of_variant(op: OpOverload, rule: RuleFunction, variant: Variant) -> RuleFunction:
    """The rule of a variant of `op`, given that of `op`."""
    rows_of = _in_place_rows if variant.in_place else _out_rows
    returns = bool(function_schema(variant.op).returns)

    def rows(_: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[list[Any]]:
        return rows_of(op, rule, variant, returns, args, kwargs)

    return rows


def _in_place_rows(
    op: OpOverload,
    rule: RuleFunction,
    variant: Variant,
    returns: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> list[list[Any]]:
    """The rows that leave the written operand placed as it is."""
    operands = operands_of(op, args, kwargs)
    rows = rule(op, args, kwargs)
    check_rows(op, rows, operands, 1)
    (name,) = variant.written
    place = 1 + [operand.argument for operand in operands].index(name)
    kept = [[*row] for row in rows if _are_alike(row[0], row[place])]
    return kept if returns else [row[1:] for row in kept]


def _out_rows(
    op: OpOverload,
    rule: RuleFunction,
    variant: Variant,
    returns: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> list[list[Any]]:
    """The rows, with the operands that are written placed as the outputs."""
    args = args[: len(function_schema(op).arguments)]
    kwargs = {name: value for name, value in kwargs.items() if name not in variant.written}
    rows = rule(op, args, kwargs)
    outputs = traits_of(op).tensor_returns
    check_rows(op, rows, operands_of(op, args, kwargs), outputs)
    made: list[list[Any]] = []
    for row in rows:
        written: Sequence[Any] = row[:outputs]
        if None not in written:
            made.append([*(row if returns else row[outputs:]), *written])
    return made


def _are_alike(cell: Any, other: Any) -> bool:
    """Do two cells of a row mean the same placement?"""
    if isinstance(cell, ShardingPlaceholder) and isinstance(other, ShardingPlaceholder):
        return bool(cell.dim == other.dim)
    return not isinstance(cell, ShardingPlaceholder) and bool(cell == other)
