"""The place where torch's dispatcher asks for decisions."""

from __future__ import annotations

from collections.abc import Callable

from .. import _torch
from .._torch import OpSchema, OutputSharding

__all__ = ["after_install", "install", "is_installed", "uninstall"]

_afterwards: list[Callable[[], None]] = []


def after_install(then: Callable[[], None]) -> None:
    """Call `then` after each `install`: what was put around the place before is gone."""
    _afterwards.append(then)


def install(propagate: Callable[[OpSchema], OutputSharding]) -> None:
    """Put `propagate` where torch's dispatcher asks for a decision, and clear torch's caches."""
    _torch.hide_from_dynamo(propagate)
    _torch.install_propagation(propagate)
    _torch.forget_decisions()
    for then in _afterwards:
        then()


def is_installed(propagate: Callable[[OpSchema], OutputSharding]) -> bool:
    """Is it there, and nothing that was put there later?"""
    return _torch.installed_propagation() == propagate


def uninstall() -> None:
    """Undo `install`."""
    _torch.uninstall_propagation()
    _torch.forget_decisions()
