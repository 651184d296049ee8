"""A program with the candidates of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..._torch import DeviceMesh
from ...model.placements import Placements
from ..strategies import LayoutTable
from .candidates import Candidates
from .program import Program

__all__ = ["Labelled"]


@dataclass(frozen=True)
class Labelled:
    """What a problem is made of.

    Attributes:
        program: The program.
        candidates: One for each of its nodes.
        layouts: What the numbers in the candidates stand for.
        mesh: The mesh.
    """

    program: Program
    candidates: Sequence[Candidates]
    layouts: LayoutTable
    mesh: DeviceMesh

    def given(self, node: int, label: int) -> tuple[Placements | None, ...]:
        """Per output of a node its placements under a label; None for one that is absent."""
        ids = self.candidates[node].outputs[label].tolist()
        return tuple(None if i < 0 else self.layouts[i] for i in ids)

    def wanted(self, node: int, label: int) -> tuple[Placements, ...]:
        """Per operand of a node the placements that a label wants."""
        return tuple(self.layouts[i] for i in self.candidates[node].operands[label].tolist())

    def offered(self, node: int) -> list[Placements]:
        """The placements of the first output of a node, by label."""
        return [self.layouts[i] for i in self.candidates[node].outputs[:, 0].tolist()]
