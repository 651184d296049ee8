"""Plans for steps whose redistributions run beside ops."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..._torch.graph_calls import op_may_give_a_view
from ..graph.errors import UnsolvedError
from ..graph.problem import Problem
from ..graph.solution import PROVED, Solution
from ..graph.solution import relative_gap as gap_of
from ..graph.solving import checked_time_limit, solve
from .program import Node, Program

__all__ = ["solve_overlapped"]

# Parts of their price at which redistributions beside ops are tried, in the forward and in the
# backward. Steps of LLaMA3-8B were shortest at one or another of these (docs/performance.md). The
# first says what is proved; the second decides among plans that cost the same.
_PARTS = ((1.0, 1.0), (0.99, 1.0), (0.9, 1.0), (0.5, 0.8), (0.5, 0.6))


def solve_overlapped(
    problem: Problem,
    program: Program,
    step_us: Callable[[Solution], float],
    *,
    time_limit: float | None = None,
    solve: Callable[..., Solution] = solve,
    **settings: Any,
) -> Solution:
    """Of plans that are cheapest where redistributions beside ops have a part of their price, that
    of which a step takes least.

    Args:
        problem: Of the program.
        program: The program.
        step_us: What a step takes by a solution, in microseconds.
        time_limit: Seconds for all of it; a first plan is found and looked at in any case.
        solve: Finds a solution of a problem like this, with other prices.
        **settings: Others of it.

    Returns:
        A solution with what it costs one after another; what is proved is proved of that.

    Raises:
        InfeasibleError: there is no plan.
        UnsolvedError: none was found in time.
        ShardpropError: as `graph.solve`.
    """
    began = time.monotonic()
    limit = checked_time_limit(time_limit)
    sides = _sides(problem, program)
    best, least, lower = None, math.inf, -math.inf
    seen: set[bytes] = set()
    slowest = 0.0
    for tried, parts in enumerate(_PARTS):
        now = time.monotonic()
        left = began + limit - now
        if best is not None and left <= slowest:
            break
        each = left / (len(_PARTS) - tried)
        prices = problem if parts == (1.0, 1.0) else problem.scaled(_factors(sides, parts))
        try:
            found = solve(prices, time_limit=None if math.isinf(each) else each, **settings)
        except UnsolvedError:
            if best is None:
                raise
            continue
        if best is None:
            lower = found.lower_bound
        if found.labels.tobytes() not in seen:
            seen.add(found.labels.tobytes())
            us = step_us(found)
            if us < least:
                best, least = found, us
        slowest = max(slowest, time.monotonic() - now)
    assert best is not None
    cost = problem.check(best.labels).objective
    return replace(
        best,
        objective=cost,
        lower_bound=min(lower, cost),
        proved=gap_of(cost, lower) <= PROVED,
        seconds=time.monotonic() - began,
        state=None,
    )


def _sides(problem: Problem, program: Program) -> NDArray[np.intp]:
    """By edge of the problem 0 in the forward and 1 in the backward for what may run beside ops,
    for it can be brought before it is read, or is read when all is over; -1 for others."""
    early, late = _of_parameters(program), _read_at_the_end(program)
    count = len(program.nodes)
    sides = np.full(len(problem.edges), -1)
    for at, edge in enumerate(problem.edges):
        reader, made = edge.u, edge.v
        if max(reader, made) < count and (made in early or reader in late):
            sides[at] = program.nodes[reader].backward
    return sides


def _factors(sides: NDArray[np.intp], parts: tuple[float, float]) -> NDArray[np.float64]:
    """By edge the part of its price: of the forward, of the backward, and all of it for others."""
    return np.array([*parts, 1.0])[sides]


def _of_parameters(program: Program) -> set[int]:
    """The nodes that parameters, buffers and constants alone have a part in."""
    found: set[int] = set()
    for node in program.nodes:
        if node.kind in ("parameter", "buffer", "constant") or (
            node.op is not None and all(ref.node in found for ref in node.operands)
        ):
            found.add(node.index)
    return found


def _read_at_the_end(program: Program) -> set[int]:
    """Gradients, and what is to be in buffers; views and casts that lead to nothing else."""
    found = {*program.gradient_of.values(), *program.written.values()}
    readers: dict[int, set[int]] = {}
    for node in reversed(program.nodes):
        own = readers.get(node.index, set())
        if own and own <= found and _is_light(node):
            found.add(node.index)
        for ref in node.operands:
            readers.setdefault(ref.node, set()).add(node.index)
    return found


def _is_light(node: Node) -> bool:
    return node.op is not None and (
        node.op is torch.ops.aten._to_copy.default or op_may_give_a_view(node.op)
    )
