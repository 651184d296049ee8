"""Packages of ours that documents named before 0.1.0 under other paths, still found there for one
release.

``import shardprop.topology`` gives ``shardprop.cost.topology``, the very module, with a
DeprecationWarning.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
    from types import ModuleType
else:
    Loader = object  # importlib.abc loads more than this whole package does

__all__ = ["NOW_AT", "find_under_former_paths"]

NOW_AT = {
    "calibration": "cost.calibration",
    "capture": "planning.models",
    "compute": "cost.compute",
    "discover": "verification.discover",
    "explanation": "inspection.explanation",
    "full_mesh": "planning.strategies",
    "html_report": "inspection.report",
    "pictures": "inspection.report",
    "topology": "cost.topology",
    "tracing": "inspection.tracing",
    "validate": "verification.validate",
}

_PACKAGE = __name__.rpartition(".")[0]


def find_under_former_paths() -> None:
    """Lets the import system find what `NOW_AT` lists."""
    # First: the path of a package that was found would lead to its modules a second time.
    sys.meta_path.insert(0, _Finder())


class _Finder:
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        package, _, inside = fullname.partition(".")
        first, dot, rest = inside.partition(".")
        if package != _PACKAGE or first not in NOW_AT:
            return None
        return ModuleSpec(fullname, _Alias(f"{package}.{NOW_AT[first]}{dot}{rest}"))


class _Alias(Loader):
    """Puts the module of another name in the place of the one that is being imported."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> None:
        """The import system makes an empty one."""

    def exec_module(self, module: ModuleType) -> None:
        warnings.warn(
            f"{module.__name__} is now {self.name}; the former name goes with the next release.",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[module.__name__] = import_module(self.name)
