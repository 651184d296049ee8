"""What a plan file means for a program that was captured: a solution, without a solve."""

from __future__ import annotations

import math

import numpy as np

from ...errors import ShardpropError
from ...support.console import counted
from ..graph.problem import Problem
from ..graph.solution import Solution
from .labelled import Labelled
from .plan_file import (
    PlanFile,
    PlannedNode,
    check_mesh,
    check_nodes,
    digest_of,
    facts_of,
    layout_text,
)

__all__ = ["solution_of"]


def solution_of(plan: PlanFile, problem: Problem, labelled: Labelled, document: str) -> Solution:
    """The labels that a plan stands for.

    Args:
        plan: The plan.
        problem: Of the program that is to run by it.
        labelled: What its labels stand for.
        document: What messages call the plan.

    Raises:
        ShardpropError: the plan is of another program or mesh, has a strategy that is not offered,
            or breaks what is wished; the node is named.
    """
    program, mesh = labelled.program, labelled.mesh
    check_mesh(document, plan, mesh.shape, mesh.mesh_dim_names)
    check_nodes(document, plan.nodes, [facts_of(program, node) for node in program.nodes])
    of = _Labels(labelled, document).of
    labels = [of(node.index, its) for node, its in zip(program.nodes, plan.nodes, strict=True)]
    found = problem.check(labels)
    if not found.feasible:
        raise ShardpropError(
            f"{document}: Expected a plan that does what is wished, got one with "
            f"{counted(len(found.violations), 'fault')}: {found.violations[0]}"
        )
    # Of another problem nothing is known of what is least.
    same = plan.lower_bound_us is not None and digest_of(problem) == plan.problem
    return Solution(
        np.array(labels, np.int32),
        found.objective,
        plan.lower_bound_us if same and plan.lower_bound_us is not None else -math.inf,
        plan.proved and same,
        seconds=0.0,
        stats={},
        state=None,
        _nodes=tuple(problem.nodes),
    )


class _Labels:
    """Finds the labels that plans stand for.

    Args:
        labelled: What labels stand for.
        document: What messages call the plan.
    """

    def __init__(self, labelled: Labelled, document: str) -> None:
        self._labelled = labelled
        self._document = document
        self._ids: dict[str | None, list[int]] = {None: [-1]}
        for number in range(len(labelled.layouts)):
            # Masks of several calls are written alike.
            self._ids.setdefault(layout_text(labelled.layouts[number]), []).append(number)

    def of(self, node: int, planned: PlannedNode) -> int:
        """The label of a node.

        Raises:
            ShardpropError: there is none.
        """
        candidates = self._labelled.candidates[node]
        fits = np.ones(len(candidates), bool)
        for ids, layouts in (
            (candidates.outputs, planned.outputs),
            (candidates.operands, planned.operands),
        ):
            if ids.shape[1] != len(layouts):
                fits[:] = False
                break
            for column, layout in zip(ids.T, layouts, strict=True):
                fits &= np.isin(column, self._ids.get(layout, []))
        found = np.flatnonzero(fits)
        if not len(found):
            operands = f" on ({', '.join(planned.operands)})" if planned.operands else ""
            raise ShardpropError(
                f"{self._document}: Expected a strategy that is offered for "
                f"{planned.op or planned.kind} {planned.name}, got "
                f"({', '.join(map(str, planned.outputs))}){operands}. It may have been captured "
                "with other settings (rules, strided), or by another version."
            )
        return int(found[0])
