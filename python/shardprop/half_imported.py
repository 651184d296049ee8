"""`enable` while torch is being imported: by a hook of the import system, or in a thread beside it.

To import a module of torch then would run parts of torch that need others which are not there yet,
or a second time, which registers ops twice. Nothing here imports torch.
"""

from __future__ import annotations

import logging
import sys
from types import FrameType
from typing import Any

__all__ = ["enable", "is_torch_half_imported"]

_logger = logging.getLogger("shardprop")

# With these all is there that this package imports of torch.
_NEEDED = ("torch", "torch.distributed.tensor")


def is_torch_half_imported() -> bool:
    """Is something of torch being imported that this package needs, or may come to need?"""
    under_way = _names_under_way()
    if all(name in sys.modules and name not in under_way for name in _NEEDED):
        return False
    return bool(under_way)


def enable(**settings: Any) -> None:
    """`shardprop.enable` as it was looked up while torch was half imported: does nothing, and says
    so in the log, as long as it is.

    Raises:
        ShardpropError: as `shardprop.enable` does, once torch is imported.
    """
    if is_torch_half_imported():
        _logger.info("enable() did nothing: torch is being imported. Call it again afterwards.")
        return
    from . import propagator

    propagator.enable(**settings)


def _names_under_way() -> set[str]:
    """Modules of torch that are being imported, those among them that are only looked for yet."""
    found = {
        name
        for name, module in list(sys.modules.items())
        if _is_torchs(name) and getattr(getattr(module, "__spec__", None), "_initializing", False)
    }
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load":  # of importlib
            name = frame.f_locals.get("name")
            if isinstance(name, str) and _is_torchs(name):
                found.add(name)
        frame = frame.f_back
    return found


def _is_torchs(name: str) -> bool:
    return name.partition(".")[0] == "torch"
