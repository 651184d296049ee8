"""SHARDPROP in the environment: a program that nobody edited runs with shardprop.

``1`` enables it once DTensor is imported, ``report`` also has a line printed when the program ends.
Whatever goes wrong, the program goes on without.
"""

from __future__ import annotations

import atexit
import os
import sys

from .errors import ShardpropError
from .half_imported import being_imported, looked_for_here
from .support.import_hooks import ImportWatcher
from .version import __version__

__all__ = ["IS_OFF", "IS_ON", "follow"]

IS_OFF, IS_ON = ("", "0"), ("1", "report")

_DTENSOR = "torch.distributed.tensor"
# Of these, half imported, nothing can be had.
_PACKAGES = ("torch", "shardprop")
# Of the environment when it was looked at; None before.
_asked: str | None = None


def follow() -> None:
    """Do what SHARDPROP asks for, once in a process; otherwise nothing."""
    global _asked
    asked = os.environ.get("SHARDPROP", "")
    if _asked is not None or asked in IS_OFF:
        return
    _asked = asked
    if asked not in IS_ON:
        _say(f"Expected SHARDPROP=1 or SHARDPROP=report, got {asked!r}: not enabled")
        return
    if _DTENSOR in sys.modules and not being_imported("torch"):
        _enable()
    else:
        _imports.begin()


def _enable() -> None:
    try:
        _check_installation()
        from .propagation.propagator import enable

        enable()
        if _asked == "report" and os.environ.get("RANK", "0") == "0":
            from .exit_report import ExitReport

            atexit.register(ExitReport().print)
    except Exception as error:  # not out of an import of torch
        _say(f"not enabled, {type(error).__name__}: {error}")


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


def _is_no_part(name: str) -> bool:
    """Is it a module whose import is no part of another's? Before that is over, torch may lack
    modules that shardprop needs, and shardprop its own."""
    return name.partition(".")[0] in _PACKAGES and looked_for_here(*_PACKAGES) <= {name}


def _look(imported: str) -> None:
    """Enable, if DTensor came with this module, and no other thread imports more of it."""
    if _DTENSOR in sys.modules and being_imported(*_PACKAGES) <= {imported}:
        _imports.end()
        _enable()


_imports = ImportWatcher(_is_no_part, _look)


def _say(what: str) -> None:
    print(f"shardprop: {what}", file=sys.stderr)
