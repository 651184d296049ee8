"""The script of a finding, once there is something that writes one."""

from __future__ import annotations

from collections.abc import Sequence

from .calls import Call
from .simulation import Row

__all__ = ["script_of"]


def script_of(call: Call, rows: Sequence[Row], mesh: tuple[int, ...], seed: int) -> str:
    """A Python script that shows the finding without shardprop; empty if none can be written."""
    try:
        from . import repro
    except ImportError:
        return ""
    written = repro.script(call, rows, mesh, seed)
    return str(written)
