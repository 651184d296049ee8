"""Random whole-graph problems for the core's solver, and their least objective by trying all."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

INF = float("inf")
SLACK = 1e-9


@dataclass
class Statement:
    """The arguments of `_core.GraphProblem`."""

    unaries: list[Any]
    tables: list[Any] = field(default_factory=list)
    edges: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    classes: list[Any] = field(default_factory=list)
    groups: list[Any] = field(default_factory=list)
    rows: list[tuple[float, float, Any, Any, Any]] = field(default_factory=list)

    def arguments(self) -> tuple[Any, ...]:
        edges = np.array(self.edges, np.int32).reshape(-1, 5)
        return self.unaries, self.tables, edges, self.classes, self.groups, self.rows


def random_statement(rng: np.random.Generator) -> Statement:
    """Up to 5 nodes of up to 4 labels; forbidden entries, ties, classes, groups and rows occur."""
    n = int(rng.integers(1, 6))
    counts = rng.integers(1, 5, n)
    whole = rng.random() < 0.5

    def prices(shape: Any, forbidden: float) -> Any:
        drawn = rng.integers(-1, 5, shape).astype(float) if whole else rng.normal(0, 5, shape)
        drawn[rng.random(shape) < forbidden] = INF
        return drawn

    out = Statement([prices(count, 0.05) for count in counts])
    out.tables = [prices(tuple(rng.integers(1, 5, 2)), p) for p in (0, 0.1, 0.4)]
    for _ in range(int(rng.integers(0, 3 * n))):
        u, v = (int(x) for x in rng.integers(0, n, 2))
        t = int(rng.integers(0, 3))
        ends = []
        for node, side in zip((u, v), out.tables[t].shape, strict=True):
            if counts[node] == side and rng.random() < 0.5:
                ends.append(-1)
            else:
                ends.append(len(out.classes))
                out.classes.append(rng.integers(0, side, counts[node]).astype(np.int32))
        out.edges.append((u, v, t, ends[0], ends[1]))
    for _ in range(int(rng.integers(0, 2))):
        alike = np.flatnonzero(counts == counts[rng.integers(0, n)])
        out.groups.append(rng.permutation(alike)[:2].astype(np.int32))
    for _ in range(int(rng.integers(0, 3))):
        out.rows.append(_random_row(rng, counts))
    return out


def _random_row(rng: np.random.Generator, counts: Any) -> tuple[float, float, Any, Any, Any]:
    pairs = [(i, k) for i, count in enumerate(counts) for k in range(count) if rng.random() < 0.8]
    nodes, labels = np.array(pairs, np.int32).reshape(-1, 2).T
    coefficients = rng.integers(-2, 7, len(pairs)) * 0.25
    middle = float(rng.integers(-4, 16)) * 0.25
    width = float(rng.integers(0, 6)) * 0.25
    lo, hi = [(-INF, middle), (middle, INF), (middle, middle + width)][rng.integers(0, 3)]
    return lo, hi, nodes.copy(), labels.copy(), coefficients


def objectives(statement: Statement) -> tuple[Any, Any]:
    """All assignments [M, N] and the objective of each [M]; +inf where one is not allowed."""
    counts = [len(unary) for unary in statement.unaries]
    labels = np.array(list(itertools.product(*(range(count) for count in counts))))
    total = sum(unary[labels[:, i]] for i, unary in enumerate(statement.unaries))
    for u, v, table, u_classes, v_classes in statement.edges:
        rows, columns = labels[:, u], labels[:, v]
        if u_classes >= 0:
            rows = statement.classes[u_classes][rows]
        if v_classes >= 0:
            columns = statement.classes[v_classes][columns]
        total = total + statement.tables[table][rows, columns]
    for group in statement.groups:
        total[(labels[:, group] != labels[:, group[:1]]).any(axis=1)] = INF
    for lo, hi, nodes, wanted, coefficients in statement.rows:
        amount = ((labels[:, nodes] == wanted) * coefficients).sum(axis=1)
        total[(amount < lo - SLACK * max(1, abs(lo))) | (amount > hi + SLACK * max(1, abs(hi)))] = (
            INF
        )
    return labels, total
