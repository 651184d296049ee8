"""What shardprop raises."""

from __future__ import annotations

__all__ = ["RefusedPlacementError", "ShardpropError"]


class ShardpropError(ValueError):
    """A question that cannot be answered as it was put; the message says what to change."""


class RefusedPlacementError(ShardpropError):
    """An operand is placed as the op cannot use it, and cannot be moved."""
