"""Ops by name, of whatever torch is installed."""

from __future__ import annotations

from torch._ops import OpOverload

from .registry import find_op

__all__ = ["find_known_op"]


def find_known_op(name: str) -> OpOverload | None:
    """The op written as torch prints it; None where this torch has none of that name."""
    try:
        return find_op(name)
    except AttributeError:
        return None
