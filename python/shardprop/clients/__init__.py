"""Other libraries that ask DTensor, answered in less time; each by a module of its own.

``enable`` puts answers in place for those that are imported, and for others once they are.
"""

from __future__ import annotations

import sys

from ..support.import_hooks import ImportWatcher
from . import spmd_types

__all__ = ["install", "uninstall"]

# By the module that is to be there.
_CLIENTS = {spmd_types.MODULE: spmd_types}


def install() -> None:
    """Answer those that are imported, and watch for the others."""
    for module, client in _CLIENTS.items():
        if module in sys.modules:
            client.install()
    _waiting.begin()


def uninstall() -> None:
    """Have them ask DTensor again."""
    _waiting.end()
    for client in _CLIENTS.values():
        client.uninstall()


def _came(module: str) -> None:
    _CLIENTS[module].install()


_waiting = ImportWatcher(_CLIENTS.__contains__, _came)
