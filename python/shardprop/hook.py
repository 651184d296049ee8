"""The place where torch's dispatcher asks for decisions."""

from __future__ import annotations

from collections.abc import Callable

from . import _torch
from ._torch import OpSchema, OutputSharding

__all__ = ["install", "is_installed", "uninstall"]


def install(propagate: Callable[[OpSchema], OutputSharding]) -> None:
    """Put `propagate` where torch's dispatcher asks for a decision, and clear torch's caches."""
    _torch.hide_from_dynamo(propagate)
    _torch.propagator().propagate_op_sharding_non_cached = propagate
    _torch.forget_decisions()


def is_installed(propagate: Callable[[OpSchema], OutputSharding]) -> bool:
    """Is it there, and nothing that was put there later?"""
    found: object = vars(_torch.propagator()).get("propagate_op_sharding_non_cached")
    return found == propagate


def uninstall() -> None:
    """Undo `install`."""
    vars(_torch.propagator()).pop("propagate_op_sharding_non_cached", None)
    _torch.forget_decisions()
