"""A problem as the solver takes it: arrays only, masks within the costs, pairs as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .constraints import AllowPairs, Constraint, Equal, Row
from .inputs import Floats, Ints
from .parts import NO_CLASSES, Edge

if TYPE_CHECKING:
    from .problem import Problem

__all__ = ["Lowered", "Lowering", "lower"]

RowArrays = tuple[float, float, Ints, Ints, Floats]


@dataclass(frozen=True, eq=False)
class Lowered:
    """What `_core.GraphProblem` takes, in its order.

    Attributes:
        unaries: [K_i] each, inf for forbidden labels.
        tables: Prices; inf for forbidden pairs.
        edges: [E, 5] of u, v, table, classes of u, classes of v (-1: each label its own).
        classes: [K] each.
        groups: Nodes with equal labels, each.
        rows: (lo, hi, nodes, labels, coefficients) each.
    """

    unaries: list[Floats]
    tables: list[Floats]
    edges: Ints
    classes: list[Ints]
    groups: list[Ints]
    rows: list[RowArrays]

    def same_shape(self, other: Lowered) -> bool:
        """Are the nodes, label counts, tables and edges those of the other?"""
        return (
            len(self.unaries) == len(other.unaries)
            and len(self.tables) == len(other.tables)
            and np.array_equal(self.edges, other.edges)
            and all(len(a) == len(b) for a, b in zip(self.unaries, other.unaries, strict=True))
            and all(a is b or _equal(a, b) for a, b in zip(self.tables, other.tables, strict=True))
            and len(self.classes) == len(other.classes)
            and all(
                a is b or _equal(a, b) for a, b in zip(self.classes, other.classes, strict=True)
            )
        )


class Lowering:
    """Collects the edges and constraints of some nodes.

    Args:
        unaries, tables, classes: As in `Lowered`; tables of pairs are added behind the others.
        renumbered: By node of the problem, that of the arrays; None if they are the same.
    """

    def __init__(
        self,
        unaries: list[Floats],
        tables: Iterable[Floats],
        classes: Iterable[Ints],
        renumbered: Mapping[int, int] | None = None,
    ) -> None:
        self._tables = list(tables)
        self._pairs: dict[tuple[int, int, bytes], int] = {}  # tables of equal sets of pairs
        self._edges: list[tuple[int, int, int, int, int]] = []
        self._groups: list[Ints] = []
        self._rows: list[RowArrays] = []
        self._unaries, self._classes = unaries, list(classes)
        self._renumbered = renumbered

    def add_edge(self, edge: Edge, table: int) -> None:
        """Prices, by the index that their table has here."""
        self._add_edge(edge.u, edge.v, table, edge.u_classes, edge.v_classes)

    def add(self, constraint: Constraint) -> None:
        """A constraint; those of one node are in its costs and pass here unnoticed."""
        match constraint:
            case AllowPairs(u=u, v=v, pairs=pairs):
                self._add_edge(u, v, self._pair_table(u, v, pairs), NO_CLASSES, NO_CLASSES)
            case Equal(members=members):
                self._groups.append(self._nodes(members))
            case Row() as row:
                nodes = self._nodes(row.of_nodes)
                self._rows.append((row.lo, row.hi, nodes, row.labels, row.coefficients))
            case _:
                pass

    def lowered(self) -> Lowered:
        edges = np.array(self._edges, dtype=np.int32).reshape(len(self._edges), 5)
        return Lowered(self._unaries, self._tables, edges, self._classes, self._groups, self._rows)

    def _add_edge(self, u: int, v: int, table: int, of_u: int, of_v: int) -> None:
        self._edges.append((self._node(u), self._node(v), table, of_u, of_v))

    def _node(self, node: int) -> int:
        return node if self._renumbered is None else self._renumbered[node]

    def _nodes(self, nodes: Ints) -> Ints:
        if self._renumbered is None:
            return nodes
        return np.array([self._renumbered[int(node)] for node in nodes], dtype=np.int32)

    def _pair_table(self, u: int, v: int, pairs: Ints) -> int:
        """0 where a pair is allowed and inf elsewhere."""
        counts = (len(self._unaries[self._node(u)]), len(self._unaries[self._node(v)]))
        key = (*counts, pairs.tobytes())
        if key not in self._pairs:
            table = np.full(counts, np.inf)
            table[pairs[:, 0], pairs[:, 1]] = 0.0
            self._pairs[key] = len(self._tables)
            self._tables.append(table)
        return self._pairs[key]


def lower(problem: Problem) -> Lowered:
    """The arrays of a problem; tables and classes are not copied."""
    unaries = [
        np.where(left, node.costs, np.inf)
        for node, left in zip(problem.nodes, problem.left, strict=True)
    ]
    lowering = Lowering(unaries, problem.tables, problem.classes)
    for edge in problem.edges:
        lowering.add_edge(edge, edge.table)
    for constraint in problem.constraints.values():
        lowering.add(constraint)
    return lowering.lowered()


def _equal(first: Floats | Ints, second: Floats | Ints) -> bool:
    return first.shape == second.shape and bool((first == second).all())
