"""SHARDPROP in the environment: a program that nobody edited runs with shardprop.

``1`` enables it once DTensor is imported, ``report`` also has a line printed when the program ends.
Whatever goes wrong, the program goes on without.
"""

from __future__ import annotations

import atexit
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .errors import ShardpropError
from .half_imported import is_torchs, modules_being_imported
from .version import __version__

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # importlib.abc loads more than this whole package does

__all__ = ["IS_OFF", "IS_ON", "follow"]

IS_OFF, IS_ON = ("", "0"), ("1", "report")

_DTENSOR = "torch.distributed.tensor"
_followed = False


def follow() -> None:
    """Do what SHARDPROP asks for, once in a process; otherwise nothing."""
    global _followed
    asked = os.environ.get("SHARDPROP", "")
    if _followed or asked in IS_OFF:
        return
    _followed = True
    if asked not in IS_ON:
        _say(f"Expected SHARDPROP=1 or SHARDPROP=report, got {asked!r}: not enabled")
        return
    if _DTENSOR in sys.modules and not modules_being_imported():
        _enable()
    else:
        sys.meta_path.insert(0, _WhenDTensorIsThere())


def _enable() -> None:
    try:
        _check_installation()
        from .propagation.propagator import enable

        enable()
    except Exception as error:
        _say(f"not enabled, {type(error).__name__}: {error}")
        return
    if os.environ["SHARDPROP"] == "report" and os.environ.get("RANK", "0") == "0":
        from .exit_report import ExitReport

        atexit.register(ExitReport().print)


def _check_installation() -> None:
    """Is this one shardprop? An old one may have been left on the path.

    Raises:
        ShardpropError: the extension belongs to another.
    """
    from .support.build_info import build_config

    of_extension = build_config()["version"]
    if of_extension not in ("", __version__):
        raise ShardpropError(
            f"Expected the extension of shardprop {__version__}, whose Python files are in "
            f"{os.path.dirname(__file__)}, got that of {of_extension}. There are two on the path, "
            "or an old build was left behind: install it again."
        )


class _WhenDTensorIsThere:
    """Looks, after each import of torch that is no part of another, whether DTensor came with it:
    before that is over, torch may lack modules that shardprop needs."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not is_torchs(fullname) or modules_being_imported():
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                        spec.loader = _Told(spec.loader, self)
                    return spec
        return None

    def look(self, imported: str) -> None:
        """Enable, if this module was what was missing."""
        if _DTENSOR in sys.modules and modules_being_imported() <= {imported}:
            sys.meta_path.remove(self)
            _enable()


class _Told(Loader):
    """A loader that tells when a module has been imported; the module does not know of it."""

    def __init__(self, loader: Any, who: _WhenDTensorIsThere) -> None:
        self._loader = loader
        self._who = who

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._who.look(module.__name__)


def _say(what: str) -> None:
    print(f"shardprop: {what}", file=sys.stderr)
