"""Labels that no choice of the other nodes can make possible, one item at a time.

Each item takes labels from its nodes until nothing changes (arc consistency; for a row, by the
least and greatest sum that the labels left allow). A node without labels proves that the items
cannot be met together; that they leave labels everywhere proves nothing.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from .constraints import AllowPairs, Equal, Row, within
from .inputs import Flags, Floats, Ints
from .items import Item, Items, Limits
from .parts import NO_CLASSES, Edge

__all__ = ["Domains", "coefficients_by_node", "conflict", "domains_after"]

Domains = dict[int, Flags]  # by node, the labels that are left


def conflict(items: Items, limits: Limits) -> list[Item] | None:
    """Some of the items that cannot be met together; None if propagation does not show it."""
    return _Propagation(items, limits).conflict()


def domains_after(items: Items, limits: Limits) -> Domains:
    """By node that an item speaks of, the labels that are left, until one has none."""
    propagation = _Propagation(items, limits)
    propagation.conflict()
    return propagation.domains


def coefficients_by_node(row: Row, domains: Domains) -> dict[int, Floats]:
    """By node, [K] the coefficient of each label, 0 where it has none."""
    by_node = {node: np.zeros(len(domains[node])) for node in row.nodes()}
    for node, label, factor in zip(row.of_nodes, row.labels, row.coefficients, strict=True):
        by_node[int(node)][label] += factor
    return by_node


class _Propagation:
    def __init__(self, items: Items, limits: Limits) -> None:
        self._items = items
        self._limits = limits
        self._by_node: dict[int, list[int]] = {}
        self.domains: Domains = {}
        self._events: list[tuple[int, int]] = []  # node that lost labels, item that took them
        for at, item in enumerate(limits):
            for node in item.nodes():
                self._by_node.setdefault(node, []).append(at)
                count = items.problem.nodes[node].count
                self.domains.setdefault(node, np.ones(count, dtype=np.bool_))

    def conflict(self) -> list[Item] | None:
        queue = deque(range(len(self._limits)))
        waiting = set(queue)
        while queue:
            at = queue.popleft()
            waiting.discard(at)
            kept = self._kept(self._limits[at])
            if kept is None:
                return self._behind(self._limits[at].nodes(), [self._limits[at]])
            for node, mask in kept.items():
                left = self.domains[node] & mask
                if left.sum() == self.domains[node].sum():
                    continue
                self.domains[node] = left
                self._events.append((node, at))
                if not left.any():
                    return self._behind([node], [])
                for other in self._by_node[node]:
                    if other not in waiting:
                        waiting.add(other)
                        queue.append(other)
        return None

    def _behind(self, nodes: list[int], found: list[Item]) -> list[Item]:
        """The items that took labels from these nodes, and from those that they looked at."""
        needed, taken = set(nodes), dict.fromkeys(id(item) for item in found)
        for node, at in reversed(self._events):
            if node in needed:
                needed.update(self._limits[at].nodes())
                taken.setdefault(id(self._limits[at]))
        return [item for item in self._limits if id(item) in taken]

    def _kept(self, item: Item) -> Domains | None:
        """By node, the labels that the item can be met with; None if it cannot be met."""
        masked = item.mask(self._items.problem.nodes)
        if masked is not None:
            return {masked[0]: masked[1]}
        match item.limit:
            case Edge() as edge:
                rows = self._items.classes(edge.u, edge.u_classes)
                columns = self._items.classes(edge.v, edge.v_classes)
                return self._supported(edge.u, edge.v, self._items.open(edge.table), rows, columns)
            case AllowPairs(u=u, v=v, pairs=pairs):
                both = np.zeros((len(self.domains[u]), len(self.domains[v])), dtype=np.bool_)
                both[pairs[:, 0], pairs[:, 1]] = True
                rows, columns = (
                    self._items.classes(u, NO_CLASSES),
                    self._items.classes(v, NO_CLASSES),
                )
                return self._supported(u, v, both, rows, columns)
            case Equal():
                members = item.limit.nodes()
                left = np.asarray(np.stack([self.domains[node] for node in members]).all(axis=0))
                return {node: left for node in members}
            case Row() as row:
                return self._affordable(row)
            case _:
                return {}

    def _supported(self, u: int, v: int, both: Flags, rows: Ints, columns: Ints) -> Domains:
        if u == v:
            return {u: both[rows, columns]}
        u_left = np.zeros(both.shape[0], dtype=np.bool_)
        v_left = np.zeros(both.shape[1], dtype=np.bool_)
        u_left[rows[self.domains[u]]] = True
        v_left[columns[self.domains[v]]] = True
        of_u = np.asarray(both[:, v_left].any(axis=1))
        of_v = np.asarray(both[u_left].any(axis=0))
        return {u: of_u[rows], v: of_v[columns]}

    def _affordable(self, row: Row) -> Domains | None:
        by_node = coefficients_by_node(row, self.domains)
        least = {n: float(c[self.domains[n]].min()) for n, c in by_node.items()}
        most = {n: float(c[self.domains[n]].max()) for n, c in by_node.items()}
        low, high = sum(least.values()), sum(most.values())
        if not _reaches(row, low, high):
            return None
        kept = {}
        for node, factors in by_node.items():
            lows, highs = low - least[node] + factors, high - most[node] + factors
            reached = [_reaches(row, a, b) for a, b in zip(lows, highs, strict=True)]
            kept[node] = np.array(reached, dtype=np.bool_)
        return kept


def _reaches(row: Row, low: float, high: float) -> bool:
    """Might a sum from `low` to `high` meet the row?"""
    return within(row, min(max(low, row.lo), high))
