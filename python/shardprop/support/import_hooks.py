"""A finder of the import system that tells when modules have been imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # importlib.abc loads more than this whole package does

__all__ = ["ImportWatcher"]


class ImportWatcher:
    """Call a function with the name of each module that is wanted, at the end of its import.

    Args:
        is_wanted: Is a module of this name, which is about to be imported?
        then: What is called; the module counts as being imported still.
    """

    def __init__(self, is_wanted: Callable[[str], bool], then: Callable[[str], None]) -> None:
        self._is_wanted = is_wanted
        self._then = then

    def begin(self) -> None:
        """Watch imports, from now on."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def end(self) -> None:
        """Watch no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """What the import system calls."""
        if not self._is_wanted(fullname):
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Telling(spec.loader, self._then)
                return spec
        return None


class _Telling(Loader):
    """A loader that tells when a module is there; the module does not know of it."""

    def __init__(self, loader: Any, then: Callable[[str], None]) -> None:
        self._loader = loader
        self._then = then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # who asks for the spec alone wants its source, or files

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then(module.__name__)
