"""Symbolic sizes: torch's questions about them."""

from __future__ import annotations

from torch.distributed.tensor._ops import _view_ops
from torch.fx.experimental import symbolic_shapes as _shapes

from .types import SymInt

DataDependentError = _shapes.GuardOnDataDependentSymNode
free_symbols = _shapes.free_symbols
statically_known_true = _shapes.statically_known_true


def split_factors_match(expected: int, actual: int) -> bool:
    """Are two split factors the same? User's hints for unbacked sizes count, and are checked."""
    if isinstance(expected, int) and isinstance(actual, int):
        return expected == actual
    return _view_ops._split_factor_matches(expected, actual)


def split_factor_has_hint(factor: SymInt) -> bool:
    """May a symbolic split factor be made a number, by user's hints for unbacked sizes?"""
    return _view_ops._explicit_unbacked_hint(factor) is not None
