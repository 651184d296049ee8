"""What may make a problem infeasible: named items, and the problem of only some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .constraints import Allow, AllowPairs, Constraint, Equal, Forbid, Row
from .inputs import Floats, Ints
from .lowered import Lowered, PairTables, RowArrays
from .masks import Flags, allowed_by
from .parts import NO_CLASSES, Edge, Node
from .problem import Problem

__all__ = ["Item", "Items", "Limit", "Limits"]

# A node (by index) whose costs forbid labels; an edge whose prices forbid pairs; a constraint.
Limit = int | Edge | Constraint


@dataclass(frozen=True, eq=False)
class Item:
    """One limit with its name."""

    name: str
    limit: Limit

    def nodes(self) -> list[int]:
        if isinstance(self.limit, int):
            return [self.limit]
        if isinstance(self.limit, Edge):
            return sorted({self.limit.u, self.limit.v})
        return self.limit.nodes()

    def text(self, nodes: Sequence[Node]) -> str:
        """What it wants."""
        if isinstance(self.limit, int):
            node = nodes[self.limit]
            count = int(np.isinf(node.costs).sum())
            return f"{self.name} forbid {count} of its {node.count} labels"
        if isinstance(self.limit, Edge):
            first, second = nodes[self.limit.u], nodes[self.limit.v]
            return (
                f"prices of {self.name!r} forbid label pairs of nodes {first.name!r} and "
                f"{second.name!r}"
            )
        return self.limit.text(nodes)

    def mask(self, nodes: Sequence[Node]) -> tuple[int, Flags] | None:
        """The node and the labels that are allowed, for an item that speaks of one node alone."""
        if isinstance(self.limit, int):
            return self.limit, np.isfinite(nodes[self.limit].costs)
        if isinstance(self.limit, (Allow, Forbid)):
            node = self.limit.node
            return node, allowed_by(self.limit, nodes[node].count)
        return None


Limits = Sequence[Item]


class Items:
    """The items of a problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._open: dict[int, Flags] = {}  # by table, where it is finite
        self.all: list[Item] = [
            *(
                Item(f"costs of {node.name!r}", at)
                for at, node in enumerate(problem.nodes)
                if node.has_forbidden()
            ),
            *(Item(name, constraint) for name, constraint in problem.constraints.items()),
            *(Item(e.name, e) for e in problem.edges if not self.open(e.table).all()),
        ]

    def open(self, table: int) -> Flags:
        """Where a table allows a pair."""
        if table not in self._open:
            self._open[table] = np.isfinite(self.problem.tables[table])
        return self._open[table]

    def classes(self, node: int, classes: int) -> Ints:
        """[K] the row or column of each label."""
        if classes == NO_CLASSES:
            return np.arange(self.problem.nodes[node].count, dtype=np.int32)
        return self.problem.classes[classes]

    def lowered(self, items: Limits) -> Lowered:
        """The problem of these items and the nodes they speak of, at no cost."""
        return _Lowering(self).lowered(items)


class _Lowering:
    def __init__(self, items: Items) -> None:
        self._items = items
        self._problem = items.problem
        self._nodes: dict[int, int] = {}
        self._unaries: list[Floats] = []

    def lowered(self, items: Limits) -> Lowered:
        for item in items:
            for node in item.nodes():
                if node not in self._nodes:
                    self._nodes[node] = len(self._unaries)
                    self._unaries.append(np.zeros(self._problem.nodes[node].count))
        tables: dict[int, Floats] = {}
        edges: list[tuple[int, int, int, int, int]] = []
        groups: list[Ints] = []
        rows: list[RowArrays] = []
        used = [item.limit.table for item in items if isinstance(item.limit, Edge)]
        for table in dict.fromkeys(used):
            tables[table] = np.where(self._items.open(table), 0.0, np.inf)
        place = {table: at for at, table in enumerate(tables)}
        pairs = PairTables(len(tables))
        for item in items:
            masked = item.mask(self._problem.nodes)
            if masked is not None:
                at = self._nodes[masked[0]]
                self._unaries[at] = np.where(masked[1], self._unaries[at], np.inf)
            match item.limit:
                case Edge() as e:
                    ends = (self._nodes[e.u], self._nodes[e.v])
                    edges.append((*ends, place[e.table], e.u_classes, e.v_classes))
                case AllowPairs(u=u, v=v):
                    counts = (self._problem.nodes[u].count, self._problem.nodes[v].count)
                    table = pairs.index(item.limit.pairs, *counts)
                    both = (self._nodes[u], self._nodes[v])
                    edges.append((*both, table, NO_CLASSES, NO_CLASSES))
                case Equal(members=members):
                    groups.append(self._renumbered(members))
                case Row() as row:
                    of_nodes = self._renumbered(row.of_nodes)
                    rows.append((row.lo, row.hi, of_nodes, row.labels, row.coefficients))
                case _:
                    pass
        return Lowered(
            self._unaries,
            [*tables.values(), *pairs.tables],
            np.array(edges, dtype=np.int32).reshape(len(edges), 5),
            list(self._problem.classes),
            groups,
            rows,
        )

    def _renumbered(self, nodes: Ints) -> Ints:
        return np.array([self._nodes[int(node)] for node in nodes], dtype=np.int32)
