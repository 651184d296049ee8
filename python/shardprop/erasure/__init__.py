"""Graphs of local ops and collectives, cleaned (`passes/`) and written as Python (`generated`)."""

from __future__ import annotations

from .passes import PASSES, ROUNDING_PASSES

__all__ = ["PASSES", "ROUNDING_PASSES"]
