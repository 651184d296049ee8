"""What the view rules raise."""

from __future__ import annotations

__all__ = ["Declined", "Endless"]


class Declined(Exception):
    """A question left to torch, which raises an error of its own for it; the message says why."""


class Endless(Declined):
    """A question on which torch alone never returns, and so must not be asked."""
