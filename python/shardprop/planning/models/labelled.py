"""A program with the candidates of its nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..._torch import DeviceMesh, from_first_rank
from ...model.placements import Placements
from ..strategies import LayoutTable
from ..strategies.local_shapes import largest_shard
from .candidates import Candidates
from .program import Program, Ref

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

    @cached_property
    def mesh_of_first_rank(self) -> DeviceMesh:
        """The mesh as its first rank sees it, which holds most of each tensor."""
        return from_first_rank(self.mesh)

    def given(self, node: int, label: int) -> tuple[Placements | None, ...]:
        """Per output of a node its placements under a label; None for one that is absent."""
        ids = self.candidates[node].outputs[label].tolist()
        return tuple(None if i < 0 else self.layouts[i] for i in ids)

    def wanted(self, node: int, label: int) -> tuple[Placements, ...]:
        """Per operand of a node the placements that a label wants."""
        return tuple(self.layouts[i] for i in self.candidates[node].operands[label].tolist())

    def bytes_held(self, ref: Ref) -> NDArray[np.int64]:
        """By label what a tensor takes on the rank that holds most of it, in bytes."""
        return self._bytes(ref, self.candidates[ref.node].outputs[:, ref.output])

    def bytes_read(self, node: int, operand: int) -> NDArray[np.int64]:
        """By label what an operand takes where a node reads it, likewise."""
        ref = self.program.nodes[node].operands[operand]
        return self._bytes(ref, self.candidates[node].operands[:, operand])

    def _bytes(self, ref: Ref, ids: NDArray[np.int32]) -> NDArray[np.int64]:
        found, at = np.unique(ids, return_inverse=True)
        sizes = [0 if i < 0 else self.bytes_in(ref, self.layouts[i]) for i in found.tolist()]
        return np.array(sizes, np.int64)[at]

    def shapes_held(self, ref: Ref) -> list[tuple[int, ...]]:
        """By label the shape of a tensor on the rank that holds most of it."""
        shape = self.program.meta(ref).shape
        layouts = (self.layouts[i] for i in self.candidates[ref.node].outputs[:, ref.output])
        return [largest_shard(shape, self.mesh.shape, layout) for layout in layouts]

    def bytes_in(self, ref: Ref, layout: Placements) -> int:
        """What a tensor takes in a layout on the rank that holds most of it, in bytes."""
        meta = self.program.meta(ref)
        held = largest_shard(meta.shape, self.mesh.shape, layout)
        return math.prod(held) * int(meta.dtype.itemsize)

    def offered(self, node: int) -> list[Placements]:
        """The placements of the first output of a node, by label."""
        return [self.layouts[i] for i in self.candidates[node].outputs[:, 0].tolist()]
