"""Warnings at the line of the program that they are about."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

import torch

from .._torch import OpOverload
from ..rules.torch_registry import way_to_a_rule
from ..support.folder import IN_FOLDER

__all__ = ["warn_of_stand_in", "warn_user"]

_warned_of: set[OpOverload] = set()
_IN_TORCH = torch.__file__.removesuffix("__init__.py")


def warn_user(message: str) -> None:
    """Warn where the first frame is that is neither ours nor torch's."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_code.co_filename.startswith((IN_FOLDER, _IN_TORCH)):
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)


def warn_of_stand_in(op: OpOverload) -> None:
    """Warn, the first time, that an op runs on replicated operands for lack of a rule."""
    if op not in _warned_of:
        _warned_of.add(op)
        warn_user(
            f"{op} has no sharding rule and runs on replicated operands "
            f"(without_rule='replicate'). To have it run on shards, {way_to_a_rule(op)}"
        )
