"""Specs as torch makes them for the operands and outputs of a decision."""

from __future__ import annotations

from .._torch import default_shard_order, make_spec

__all__ = ["default_shard_order", "make_spec"]
