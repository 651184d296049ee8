"""What a plan says of the nodes of its program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...model.placements import Placements

__all__ = ["Chosen", "only"]


class Chosen(Protocol):
    """What the plan says of a node."""

    def wanted(self, node: int) -> Sequence[Placements]:
        """Per operand its placements."""

    def given(self, node: int) -> Sequence[Placements | None]:
        """Per output its placements; None for one that is absent."""


def only(chosen: Chosen, node: int) -> Placements:
    """The placements of a node with one output."""
    (placements,) = chosen.given(node)
    return placements or ()
