"""What torch's own tools are told of a trace: its structured trace, and DebugMode."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ... import _torch

if TYPE_CHECKING:
    from .report import Trace

__all__ = ["announce"]


def announce(trace: Trace) -> None:
    """An artifact ``shardprop_trace`` where torch records a structured trace (``TORCH_TRACE``), and
    a line of counters where a DebugMode is on."""
    if _torch.records_structured_trace():
        _torch.record_artifact("shardprop_trace", lambda: json.dumps(trace.to_json(), indent=0))
    _torch.annotate_debug_mode(lambda: f"shardprop: {trace.counters()}")
