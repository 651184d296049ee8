"""Small random problems as plain data, the `Problem` of each, and the best labels by trying all.

The brute force reads the plain data alone, so that it shares nothing with what it is held against.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from shardprop.planning.graph import Problem

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass
class Drawn:
    """A problem in plain data; edges are (u, v, prices, classes of u, classes of v)."""

    costs: list[Floats]
    edges: list[tuple[int, int, Floats, Integers | None, Integers | None]] = field(
        default_factory=list
    )
    allowed: list[tuple[int, list[int]]] = field(default_factory=list)
    forbidden: list[tuple[int, list[int]]] = field(default_factory=list)
    pairs: list[tuple[int, int, list[tuple[int, int]]]] = field(default_factory=list)
    groups: list[list[int]] = field(default_factory=list)
    rows: list[tuple[list[tuple[int, int, float]], float, float]] = field(default_factory=list)

    def problem(self) -> Problem:
        problem = Problem()
        for at, costs in enumerate(self.costs):
            problem.add_node(f"n{at}", costs)
        for u, v, prices, of_u, of_v in self.edges:
            problem.add_edge(u, v, prices, u_classes=of_u, v_classes=of_v)
        for node, labels in self.allowed:
            problem.allow(node, labels)
        for node, labels in self.forbidden:
            problem.forbid(node, labels)
        for u, v, pairs in self.pairs:
            problem.allow_pairs(u, v, pairs)
        for group in self.groups:
            problem.equal(group)
        for terms, lo, hi in self.rows:
            problem.add_row(terms, lo, hi)
        return problem

    def cost(self, labels: tuple[int, ...]) -> float:
        """Costs and prices; inf if any constraint is broken."""
        total = sum(float(costs[label]) for costs, label in zip(self.costs, labels, strict=True))
        for u, v, prices, of_u, of_v in self.edges:
            row = labels[u] if of_u is None else of_u[labels[u]]
            column = labels[v] if of_v is None else of_v[labels[v]]
            total += float(prices[int(row), int(column)])
        return total if self.meets(labels) else math.inf

    def meets(self, labels: tuple[int, ...]) -> bool:
        return (
            all(labels[node] in allowed for node, allowed in self.allowed)
            and all(labels[node] not in forbidden for node, forbidden in self.forbidden)
            and all((labels[u], labels[v]) in pairs for u, v, pairs in self.pairs)
            and all(len({labels[node] for node in group}) == 1 for group in self.groups)
            and all(self.row_met(terms, lo, hi, labels) for terms, lo, hi in self.rows)
        )

    def row_met(
        self, terms: list[tuple[int, int, float]], lo: float, hi: float, labels: tuple[int, ...]
    ) -> bool:
        total = sum(factor for node, label, factor in terms if labels[node] == label)
        return lo - 1e-9 * max(1, abs(lo)) <= total <= hi + 1e-9 * max(1, abs(hi))

    def best(self) -> float:
        """The least cost of all labels; inf if none meet the constraints."""
        every = itertools.product(*(range(len(costs)) for costs in self.costs))
        return min(self.cost(labels) for labels in every)


def drawn(seed: int, rows: bool = True) -> Drawn:
    """A problem of 2 to 5 nodes with 1 to 4 labels each, with a few of everything."""
    dice = np.random.default_rng(seed)
    counts = dice.integers(1, 5, size=dice.integers(2, 6))
    problem = Drawn([_costs(dice, (int(count),), 0.15) for count in counts])
    for _ in range(dice.integers(0, 8)):
        _draw_edge(dice, problem, counts)
    nodes = len(counts)
    if dice.random() < 0.3:
        node = int(dice.integers(nodes))
        left = np.flatnonzero(np.isfinite(problem.costs[node]))
        problem.allowed.append((node, sorted({int(dice.choice(left)), 0})))
    if dice.random() < 0.3:
        node = int(dice.integers(nodes))
        labels = np.flatnonzero(np.isfinite(problem.costs[node]))
        allowed = {label for at, chosen in problem.allowed if at == node for label in chosen}
        spare = [int(label) for label in labels if not allowed or int(label) in allowed]
        if len(spare) > 1:
            problem.forbidden.append((node, spare[:1]))
    if dice.random() < 0.3:
        u, v = (int(node) for node in dice.integers(nodes, size=2))
        both = [(int(dice.integers(counts[u])), int(dice.integers(counts[v]))) for _ in range(4)]
        problem.pairs.append((u, v, both))
    if dice.random() < 0.4:
        first = int(dice.integers(nodes))
        alike = [int(node) for node in np.flatnonzero(counts == counts[first])]
        if len(alike) > 1:
            problem.groups.append(alike[: int(dice.integers(2, len(alike) + 1))])
    if rows:
        for _ in range(dice.integers(0, 3)):
            _draw_row(dice, problem, counts)
    return problem


def _draw_edge(dice: np.random.Generator, problem: Drawn, counts: Integers) -> None:
    u, v = (int(node) for node in dice.integers(len(counts), size=2))
    shape = [int(counts[u]), int(counts[v])]
    classes: list[Integers | None] = [None, None]
    for side in (0, 1):
        if dice.random() < 0.3:
            size, shape[side] = shape[side], int(dice.integers(1, 4))
            classes[side] = dice.integers(shape[side], size=size)
    same = [e for e in problem.edges if e[2].shape == tuple(shape)]
    prices = same[0][2] if same and dice.random() < 0.3 else _costs(dice, tuple(shape), 0.2)
    problem.edges.append((u, v, prices, classes[0], classes[1]))


def _draw_row(dice: np.random.Generator, problem: Drawn, counts: Integers) -> None:
    terms = [
        (node, label, float(dice.integers(-2, 6)) / 2)
        for node in range(len(counts))
        for label in range(counts[node])
        if dice.random() < 0.7
    ]
    middle = float(dice.integers(-2, 12)) / 2
    kind = dice.integers(3)
    lo = -math.inf if kind == 0 else middle
    hi = math.inf if kind == 1 else middle + (2.0 if kind == 2 else 0.0)
    problem.rows.append((terms, lo, hi))


def _costs(dice: np.random.Generator, shape: tuple[int, ...], forbidden: float) -> Floats:
    """Whole numbers half of the time, so that ties are common; never inf everywhere."""
    costs = dice.integers(-3, 8, size=shape).astype(np.float64)
    if dice.random() < 0.5:
        costs += dice.random(shape)
    costs[dice.random(shape) < forbidden] = np.inf
    if np.isinf(costs).all():
        costs.flat[0] = 1.0
    return costs
