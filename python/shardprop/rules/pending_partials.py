"""Whether a pending reduction may wait until an op is done."""

from __future__ import annotations

import math

import torch

from .._torch import Partial
from ..model.question import Question

__all__ = [
    "is_truncated",
    "keeps_order",
    "partials_pass_conversion",
    "passes_conversion",
    "stands_for_itself",
]

_EQUAL_PARTS_REDUCE_TO_ONE = frozenset(("avg", "max", "min", "band", "bor"))


def passes_conversion(reduce_op: str, source: torch.dtype, to: torch.dtype) -> bool:
    """Do the parts, converted, reduce to what the whole is converted to?"""
    if source == to:
        return True
    if to is torch.bool:
        return reduce_op == "product"  # which is zero where a factor is; 1 - 1 is zero as well
    if source is torch.bool:
        return reduce_op != "sum"  # of bools it is a logical or
    if source.is_complex and not to.is_complex and reduce_op not in ("sum", "avg"):
        return False  # the real part of a product takes both
    return not is_truncated(source, to) or reduce_op in ("max", "min")


def is_truncated(source: torch.dtype, to: torch.dtype) -> bool:
    """Does a conversion cut off fractions?"""
    has_fractions = source.is_floating_point or source.is_complex
    return has_fractions and not (to.is_floating_point or to.is_complex)


def keeps_order(source: torch.dtype, to: torch.dtype) -> bool:
    """Is of two numbers the larger one the larger one in the other dtype, too, or as large?

    So it is where the other dtype has all numbers of the first. Floats that have no place among
    integers with a sign are left out: what becomes of them is not defined.
    """
    if to.is_floating_point or to.is_complex or source == to or torch.bool in (source, to):
        return True
    if source.is_floating_point or source.is_complex:
        return to.is_signed
    has, needs = torch.iinfo(to), torch.iinfo(source)
    return has.min <= needs.min and has.max >= needs.max


def partials_pass_conversion(question: Question) -> bool:
    """May what is pending in a list of tensors pass the conversion to the output's dtype?"""
    to = getattr(question.meta, "dtype", None)
    return to is None or all(
        passes_conversion(p.reduce_op, spec.tensor_meta.dtype, to)
        for spec in question.args[0]
        for p in spec.placements
        if isinstance(p, Partial)
    )


def stands_for_itself(partial: Partial, dtype: torch.dtype, value: object) -> bool:
    """Is the number that all ranks hold also what it reduces to?"""
    op = partial.reduce_op
    if op in _EQUAL_PARTS_REDUCE_TO_ONE or (dtype is torch.bool and op in ("sum", "product")):
        return True
    if not isinstance(value, (int, float)):
        return False
    if op == "sum":
        return value == 0 or not math.isfinite(value)
    return op == "product" and (value in (0, 1, math.inf) or math.isnan(value))
