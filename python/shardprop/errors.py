"""What shardprop raises."""

from __future__ import annotations

__all__ = ["ShardpropError"]


class ShardpropError(ValueError):
    """A question that cannot be answered as it was put; the message says what to change."""
