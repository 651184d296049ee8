"""What the view rules raise."""

from __future__ import annotations

__all__ = ["Declined"]


class Declined(Exception):
    """A question left to torch, which raises an error of its own for it; the message says why."""
