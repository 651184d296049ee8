"""The problem of a program: a label for each node, prices on the edges, what belongs together."""

from __future__ import annotations

from ...redistribution.optimal_planner import ExactPlanner
from ..graph.problem import Problem
from .edges import Edges
from .labelled import Labelled
from .user_constraints import UserConstraints

__all__ = ["build"]


def build(labelled: Labelled, planner: ExactPlanner, constraints: UserConstraints) -> Problem:
    """The problem whose optimum is the plan.

    Raises:
        ShardpropError: a wish that fits no tensor, or that no tensor can be given.
    """
    program = labelled.program
    problem = Problem()
    for node, candidates in zip(program.nodes, labelled.candidates, strict=True):
        problem.add_node(node.name, candidates.compute_us)
    Edges(labelled, planner).add_to(problem)
    for entering, gradient in program.gradient_of.items():
        name = program.nodes[entering].name
        problem.equal([entering, gradient], name=f"grad({name}) placed like {name}")
    for name, written in program.written.items():
        problem.equal([program.buffers[name], written], name=f"new {name} placed like {name}")
    for output, tangent in program.tangents:
        name = program.nodes[output].name
        problem.equal([output, tangent], name=f"grad({name}) placed like {name}")
    constraints.add_to(problem, labelled)
    return problem
