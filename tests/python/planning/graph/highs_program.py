"""A problem as a mixed integer program: the local polytope, with binary labels.

One binary per (node, label that is left); one continuous variable per edge and pair of classes
whose price is finite. For each class of either end, its pair variables sum to the labels of that
class. With whole labels these equalities leave one pair variable at 1, so no pair needs to be
binary. Nodes that must be equal share their binaries, and rows are taken over as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shardprop.planning.graph.inputs import Floats, Ints
from shardprop.planning.graph.lowered import Lowered
from shardprop.planning.graph.parts import NO_CLASSES

__all__ = ["Program", "program"]

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Program:
    """Minimise costs x, with lo <= A x <= hi, 0 <= x <= 1; the first `binaries` of x are binary.

    Attributes:
        starts, columns, values: A by rows.
        leaders: [N] the node whose binaries a node uses.
        offsets: [N] the first variable of a leader, which has one per label of `kept`.
        kept: By node, the labels that are left.
    """

    costs: Floats
    binaries: int
    starts: Ints
    columns: Ints
    values: Floats
    lo: Floats
    hi: Floats
    leaders: list[int]
    offsets: list[int]
    kept: list[Longs]

    def labels(self, solution: Floats) -> Ints:
        """[N] the labels that values of the variables stand for."""
        chosen = np.zeros(len(self.kept), dtype=np.int32)
        for node, leader in enumerate(self.leaders):
            start, kept = self.offsets[leader], self.kept[leader]
            chosen[node] = kept[int(solution[start : start + len(kept)].argmax())]
        return chosen


def program(problem: Lowered) -> Program:
    """The program of a problem."""
    return _Builder(problem).built()


class _Builder:
    def __init__(self, problem: Lowered) -> None:
        self._problem = problem
        self._leaders = _leaders(problem)
        self._costs: list[Floats] = []
        self._variables = 0
        self._columns: list[Longs] = []
        self._values: list[Floats] = []
        self._counts: list[int] = []
        self._lo: list[float] = []
        self._hi: list[float] = []
        self._place_nodes()

    def built(self) -> Program:
        binaries = self._variables
        for at in range(len(self._problem.edges)):
            self._add_edge(at)
        for lo, hi, nodes, labels, coefficients in self._problem.rows:
            self._add_row(lo, hi, nodes, labels, coefficients)
        return Program(
            np.concatenate([np.empty(0), *self._costs]),
            binaries,
            np.concatenate([[0], np.cumsum(self._counts)]).astype(np.int32),
            np.concatenate([np.empty(0, dtype=np.int64), *self._columns]).astype(np.int32),
            np.concatenate([np.empty(0), *self._values]),
            np.array(self._lo),
            np.array(self._hi),
            self._leaders,
            self._offsets,
            self._kept,
        )

    def _place_nodes(self) -> None:
        """Binaries of the leaders: costs of all their followers, one label at 1."""
        costs = [np.array(unary) for unary in self._problem.unaries]
        for node, leader in enumerate(self._leaders):
            if leader != node:
                costs[leader] += costs[node]
        for u, v, table, of_u, of_v in self._problem.edges.tolist():
            if self._leaders[u] == self._leaders[v]:
                rows, columns = self._class_of(u, of_u), self._class_of(v, of_v)
                costs[self._leaders[u]] += self._problem.tables[table][rows, columns]
        self._kept = [np.flatnonzero(np.isfinite(costs[leader])) for leader in self._leaders]
        self._offsets = [0] * len(costs)
        for node, leader in enumerate(self._leaders):
            if leader == node:
                kept = self._kept[node]
                self._offsets[node] = self._variables
                self._add_variables(costs[node][kept])
                self._add_equation(
                    self._offsets[node] + np.arange(len(kept)), np.ones(len(kept)), 1
                )

    def _class_of(self, node: int, classes: int) -> Longs:
        if classes == NO_CLASSES:
            return np.arange(len(self._problem.unaries[node]))
        return self._problem.classes[classes].astype(np.int64)

    def _add_edge(self, at: int) -> None:
        u, v, table, of_u, of_v = self._problem.edges[at].tolist()
        if self._leaders[u] == self._leaders[v]:
            return  # within the costs
        sides = [self._side(u, of_u), self._side(v, of_v)]
        prices = self._problem.tables[table][np.ix_(sides[0][0], sides[1][0])]
        finite = np.isfinite(prices)
        pair = np.full(prices.shape, -1)
        pair[finite] = self._variables + np.arange(int(finite.sum()))
        self._add_variables(prices[finite])
        for (used, members), of_class in zip(sides, (pair, pair.T), strict=True):
            for number in range(len(used)):
                pairs = of_class[number][of_class[number] >= 0]
                signs = np.concatenate([np.ones(len(pairs)), -np.ones(len(members[number]))])
                self._add_equation(np.concatenate([pairs, members[number]]), signs, 0)

    def _side(self, node: int, classes: int) -> tuple[Longs, list[Longs]]:
        """The classes that a label of the node is left in, and the variables of those labels."""
        leader = self._leaders[node]
        kept = self._kept[leader]
        used, inverse = np.unique(self._class_of(node, classes)[kept], return_inverse=True)
        variables = self._offsets[leader] + np.arange(len(kept))
        return used, [variables[inverse == number] for number in range(len(used))]

    def _add_row(
        self, lo: float, hi: float, nodes: Ints, labels: Ints, coefficients: Floats
    ) -> None:
        """Scaled by its largest coefficient: tolerances are absolute, and a row may be in bytes."""
        sums: dict[int, float] = {}
        for node, label, factor in zip(nodes, labels, coefficients, strict=True):
            leader = self._leaders[node]
            found = np.flatnonzero(self._kept[leader] == label)
            if len(found):
                variable = self._offsets[leader] + int(found[0])
                sums[variable] = sums.get(variable, 0.0) + float(factor)
        scale = max((abs(value) for value in sums.values()), default=1.0) or 1.0
        values = np.array(list(sums.values())) / scale
        self._add_constraint(np.array(list(sums), dtype=np.int64), values, lo / scale, hi / scale)

    def _add_variables(self, costs: Floats) -> None:
        self._costs.append(costs)
        self._variables += len(costs)

    def _add_equation(self, columns: Longs, values: Floats, equal: float) -> None:
        self._add_constraint(columns, values, equal, equal)

    def _add_constraint(self, columns: Longs, values: Floats, lo: float, hi: float) -> None:
        self._columns.append(columns)
        self._values.append(values)
        self._counts.append(len(columns))
        self._lo.append(lo)
        self._hi.append(hi)


def _leaders(problem: Lowered) -> list[int]:
    """By node, the first of the nodes that it must be equal to."""
    leaders = list(range(len(problem.unaries)))

    def leader(node: int) -> int:
        while leaders[node] != node:
            leaders[node] = leaders[leaders[node]]
            node = leaders[node]
        return node

    for group in problem.groups:
        for member in group.tolist():
            first, second = sorted((leader(int(group[0])), leader(member)))
            leaders[second] = first
    return [leader(node) for node in range(len(leaders))]
