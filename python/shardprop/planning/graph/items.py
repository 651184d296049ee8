"""What may make a problem infeasible: named items, and the problem of only some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .constraints import Allow, Constraint, Forbid
from .inputs import Flags, Ints
from .lowered import Lowered, Lowering
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
            return node, self.limit.mask(nodes[node].count)
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
        nodes = list(dict.fromkeys(node for item in items for node in item.nodes()))
        renumbered = {node: at for at, node in enumerate(nodes)}
        unaries = [np.zeros(self.problem.nodes[node].count) for node in nodes]
        used = dict.fromkeys(item.limit.table for item in items if isinstance(item.limit, Edge))
        tables = [np.where(self.open(table), 0.0, np.inf) for table in used]
        places = {table: at for at, table in enumerate(used)}
        lowering = Lowering(unaries, tables, self.problem.classes, renumbered)
        for item in items:
            masked = item.mask(self.problem.nodes)
            if masked is not None:
                unaries[renumbered[masked[0]]][~masked[1]] = np.inf
            elif isinstance(item.limit, Edge):
                lowering.add_edge(item.limit, places[item.limit.table])
            elif not isinstance(item.limit, int):
                lowering.add(item.limit)
        return lowering.lowered()
