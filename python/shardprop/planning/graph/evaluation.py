"""What labels cost, and which constraints they break, from the data that was given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .constraints import Allow, AllowPairs, Constraint, Equal, Forbid, Row, within
from .errors import fault
from .inputs import Ints, whole
from .parts import NO_CLASSES, Edge

if TYPE_CHECKING:
    from .problem import Problem

__all__ = ["Evaluation", "evaluate", "row_value"]


@dataclass(frozen=True)
class Evaluation:
    """Labels under scrutiny.

    Attributes:
        objective: Costs and prices together; inf if a forbidden label or pair is chosen.
        unary: The part of the nodes' costs.
        edges: The part of the edges' prices.
        rows: The sum of each row, by its name.
        violations: A sentence for each constraint, node or edge that the labels break.
    """

    objective: float
    unary: float
    edges: float
    rows: Mapping[str, float]
    violations: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        return not self.violations


def evaluate(problem: Problem, labels: npt.ArrayLike) -> Evaluation:
    """See `Problem.check`."""
    chosen = _labels(problem, labels)
    broken: list[str] = []
    unary = 0.0
    for node, label in zip(problem.nodes, chosen, strict=True):
        cost = float(node.costs[label])
        unary += cost
        if np.isinf(cost):
            broken.append(f"costs of {node.name!r}: label {node.label(label)} is forbidden")
    edges = 0.0
    for edge in problem.edges:
        price = _price(problem, edge, chosen)
        edges += price
        if np.isinf(price):
            broken.append(f"prices of {edge.name!r}: {_pair(problem, edge, chosen)} is forbidden")
    rows = {}
    for constraint in problem.constraints.values():
        if isinstance(constraint, Row):
            rows[constraint.name] = row_value(constraint, np.array(chosen))
        if not _met(constraint, chosen, rows):
            broken.append(_complaint(problem, constraint, chosen, rows))
    return Evaluation(unary + edges, unary, edges, rows, tuple(broken))


def row_value(row: Row, chosen: Ints) -> float:
    """The sum of a row."""
    return float(row.coefficients[chosen[row.of_nodes] == row.labels].sum())


def _labels(problem: Problem, labels: npt.ArrayLike) -> list[int]:
    count = len(problem.nodes)
    taken = whole("check", "labels", labels, 2**31 - 1)
    if len(taken) != count:
        raise fault("check", f"{count} labels, one per node", len(taken))
    chosen = [int(label) for label in taken]
    for node, label in zip(problem.nodes, chosen, strict=True):
        if label >= node.count:
            raise fault(f"check, node {node.name!r}", f"a label below {node.count}", label)
    return chosen


def _price(problem: Problem, edge: Edge, chosen: list[int]) -> float:
    row, column = chosen[edge.u], chosen[edge.v]
    if edge.u_classes != NO_CLASSES:
        row = int(problem.classes[edge.u_classes][row])
    if edge.v_classes != NO_CLASSES:
        column = int(problem.classes[edge.v_classes][column])
    return float(problem.tables[edge.table][row, column])


def _met(constraint: Constraint, chosen: list[int], rows: Mapping[str, float]) -> bool:
    match constraint:
        case Allow():
            return chosen[constraint.node] in constraint.labels
        case Forbid():
            return chosen[constraint.node] not in constraint.labels
        case AllowPairs():
            pair = (chosen[constraint.u], chosen[constraint.v])
            return bool((constraint.pairs == pair).all(axis=1).any())
        case Equal():
            return len({chosen[node] for node in constraint.nodes()}) == 1
        case Row():
            return within(constraint, rows[constraint.name])


def _complaint(
    problem: Problem, constraint: Constraint, chosen: list[int], rows: Mapping[str, float]
) -> str:
    wanted = constraint.text(problem.nodes)
    if isinstance(constraint, Row):
        return f"{wanted}, got {rows[constraint.name]:.10g}"
    got = [problem.nodes[node].label(chosen[node]) for node in constraint.nodes()]
    return f"{wanted}, got label{'s' if len(got) > 1 else ''} {', '.join(got)}"


def _pair(problem: Problem, edge: Edge, chosen: list[int]) -> str:
    first, second = problem.nodes[edge.u], problem.nodes[edge.v]
    return (
        f"label {first.label(chosen[edge.u])} of {first.name!r} with "
        f"{second.label(chosen[edge.v])} of {second.name!r}"
    )
