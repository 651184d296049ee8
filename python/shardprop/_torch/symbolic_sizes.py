"""Sizes that are expressions: torch.compile's dynamic shapes.

`known`, `maybe` and `holds` ask torch, and may add its guards; nothing else here adds one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import expect_true, guard_or_false, guard_or_true

from .. import _core

__all__ = [
    "backed_symbols",
    "holds",
    "is_symbolic",
    "known",
    "maybe",
    "read_size",
    "unbacked_symbols",
]

# What torch takes an unbacked size for when it compares prices and knows nothing better.
_UNBACKED_SIZE = 8192


def is_symbolic(sizes: Iterable[object]) -> bool:
    """Is one of the sizes an expression?"""
    return any(isinstance(size, torch.SymInt) for size in sizes)


def unbacked_symbols(size: object) -> Any:
    """The symbols of a size that only the data will tell."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return free_unbacked_symbols(size)


def backed_symbols(size: object) -> Any:
    """The symbols of a size that have a value now."""
    from torch.fx.experimental.symbolic_shapes import free_symbols

    return free_symbols(size) - unbacked_symbols(size)


def read_size(size: object) -> tuple[int, str]:
    """What torch takes a size for when it compares prices, and the size as text.

    Equal texts are equal sizes, within one trace.

    Raises:
        _core.Unsupported: no number stands for it, or it is no size at all.
    """
    from torch.fx.experimental.symbolic_shapes import guarding_hint_or_throw

    if not isinstance(size, torch.SymInt) or size.node.is_nested_int():
        raise _core.Unsupported("size that is no int")
    unbacked = unbacked_symbols(size)
    if not unbacked:
        return int(guarding_hint_or_throw(size)), str(size.node.expr)
    expression = size.node.expr.xreplace(
        {symbol: _unbacked_size(size.node.shape_env, symbol) for symbol in unbacked}
    )
    if expression.free_symbols:
        raise _core.Unsupported("size of backed and unbacked symbols")
    return int(expression), str(size.node.expr)


def _unbacked_size(shape_env: Any, symbol: Any) -> Any:
    """torch's replacement (``_select_min_redistribute_cost``): a hint, an upper bound, a guess."""
    import sympy  # type: ignore[import-untyped]

    hint = shape_env.var_to_hint_override.get(symbol)
    if hint is None:
        upper = shape_env.bound_sympy(symbol).upper
        hint = upper if isinstance(upper, sympy.Integer) else _UNBACKED_SIZE
    return sympy.Integer(hint)


# Conditions on sizes are plain bools where the sizes are plain; those are answered at once.


def known(condition: bool) -> bool:
    """Is it true, as far as can be told now? What is told adds a guard."""
    return condition if isinstance(condition, bool) else guard_or_false(condition)


def maybe(condition: bool) -> bool:
    """Is it true, or can it not be told now? What is told adds a guard."""
    return condition if isinstance(condition, bool) else guard_or_true(condition)


def holds(condition: bool) -> bool:
    """Take it to be true, and have it checked when the program runs if it cannot be told now."""
    return condition if isinstance(condition, bool) else expect_true(condition)
