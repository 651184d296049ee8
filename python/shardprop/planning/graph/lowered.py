"""A problem as the solvers take it: arrays only, masks within the costs, pairs as tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .constraints import AllowPairs, Equal, Row
from .inputs import Floats, Ints
from .parts import NO_CLASSES

if TYPE_CHECKING:
    from .problem import Problem

__all__ = ["Lowered", "PairTables", "RowArrays", "lower"]

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


class PairTables:
    """Tables of 0 where a pair is allowed and inf elsewhere, one for equal sets of pairs."""

    def __init__(self, first: int) -> None:
        self.tables: list[Floats] = []
        self._first = first  # the index of the first of them
        self._known: dict[tuple[int, int, bytes], int] = {}

    def index(self, pairs: Ints, u_count: int, v_count: int) -> int:
        key = (u_count, v_count, pairs.tobytes())
        if key not in self._known:
            table = np.full((u_count, v_count), np.inf)
            table[pairs[:, 0], pairs[:, 1]] = 0.0
            self._known[key] = self._first + len(self.tables)
            self.tables.append(table)
        return self._known[key]


def lower(problem: Problem) -> Lowered:
    """The arrays of a problem; tables and classes are not copied."""
    unaries = []
    for node, left in zip(problem.nodes, problem.left, strict=True):
        unaries.append(np.where(left, node.costs, np.inf))
    edges = [(e.u, e.v, e.table, e.u_classes, e.v_classes) for e in problem.edges]
    tables, groups, rows = PairTables(len(problem.tables)), [], []
    for constraint in problem.constraints.values():
        match constraint:
            case AllowPairs(u=u, v=v, pairs=pairs):
                table = tables.index(pairs, problem.nodes[u].count, problem.nodes[v].count)
                edges.append((u, v, table, NO_CLASSES, NO_CLASSES))
            case Equal(members=members):
                groups.append(members)
            case Row() as row:
                rows.append((row.lo, row.hi, row.of_nodes, row.labels, row.coefficients))
    return Lowered(
        unaries,
        [*problem.tables, *tables.tables],
        np.array(edges, dtype=np.int32).reshape(len(edges), 5),
        list(problem.classes),
        groups,
        rows,
    )


def _equal(first: Floats | Ints, second: Floats | Ints) -> bool:
    return first.shape == second.shape and bool((first == second).all())
