"""What counts as a number in what a program gives us."""

from __future__ import annotations

import math
from typing import TypeGuard

__all__ = ["is_finite_number"]


def is_finite_number(value: object) -> TypeGuard[int | float]:
    """Is it a Python number that a float can hold, neither infinite nor a bool?"""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
