"""Python imports this at the start of each process whose PYTHONPATH has this folder.

When the process ends, it appends a line to the file named by SHARDPROP_COUNTS: how many ops the
core decided, and how many were left to torch or refused. Without shardprop both are 0.
"""

from __future__ import annotations

import os
import sys
from multiprocessing import util

__all__ = ["note"]


def note() -> None:
    """Append the line."""
    propagator = sys.modules.get("shardprop.propagation.propagator")
    decided = others = 0
    if propagator is not None:
        found = propagator.stats()
        decided = found.decisions
        others = sum(sum(of.values()) for of in (found.delegated, found.fallbacks, found.refused))
    with open(os.environ["SHARDPROP_COUNTS"], "a", encoding="utf-8") as file:
        file.write(f"{decided} {others}\n")


def _note_at_end(_: object = None) -> None:
    util.Finalize(None, note, exitpriority=0)


if "SHARDPROP_COUNTS" in os.environ:
    _note_at_end()
    # A child of multiprocessing forgets what was to be done at its end.
    util.register_after_fork(note, _note_at_end)
