"""`enable` while torch is being imported: by a hook of the import system, or in a thread beside it.

To import a module of torch then would run parts of torch that need others which are not there yet,
or a second time, which registers ops twice. Nothing here imports torch.
"""

from __future__ import annotations

import logging
import sys
from types import FrameType
from typing import Any

__all__ = ["being_imported", "enable", "is_torch_half_imported", "looked_for_here"]

_logger = logging.getLogger("shardprop")

# With these all is there that this package imports of torch.
_NEEDED = ("torch", "torch.distributed.tensor")


def is_torch_half_imported() -> bool:
    """Is something of torch being imported that this package needs, or may come to need?"""
    looked_for = looked_for_here("torch")
    if all(_is_there(name) and name not in looked_for for name in _NEEDED):
        return False
    return bool(looked_for) or bool(being_imported("torch"))


def being_imported(*packages: str) -> set[str]:
    """The modules of packages whose import has begun, in any thread, and has not ended."""
    return {name for name in list(sys.modules) if _is_of(name, packages) and not _is_there(name)}


def enable(**settings: Any) -> None:
    """`shardprop.enable` as it was looked up while torch was half imported: does nothing, and says
    so in the log, as long as it is.

    Raises:
        ShardpropError: as `shardprop.enable` does, once torch is imported.
    """
    if is_torch_half_imported():
        _logger.info("enable() did nothing: torch is being imported. Call it again afterwards.")
        return
    from .propagation import propagator

    propagator.enable(**settings)


def _is_there(name: str) -> bool:
    """Has a module been imported to its end?"""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


def looked_for_here(*packages: str) -> set[str]:
    """Modules of packages whose import is under way in this thread, also those that are not among
    ``sys.modules`` yet."""
    found = set()
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load":  # of importlib
            name = frame.f_locals.get("name")
            if isinstance(name, str) and _is_of(name, packages):
                found.add(name)
        frame = frame.f_back
    return found


def _is_of(name: str, packages: tuple[str, ...]) -> bool:
    return name.partition(".")[0] in packages
