"""Random whole-graph problems without structure: the gap that is left after some seconds.

    python -m bench.hard_graphs [--seconds N]

Prices are uniform in [0, 1], of nodes and of pairs of labels, so that bounds by single edges prove
little: grids, and graphs in which all nodes, or a part of all pairs, are linked.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from shardprop.graph import Problem, solve
from shardprop.planning.graph.solution import relative_gap

_MOMENTS = (0.1, 1.0, 10.0, 60.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    moments = [at for at in _MOMENTS if at < seconds]
    print(f"| problem | labels | {' | '.join(f'{at:g} s' for at in moments)} | end | seconds |")
    print(f"|---|---:|{'---:|' * len(moments)}---:|---:|")
    for name, problem in problems():
        print(row(name, problem, seconds, moments), flush=True)


def problems() -> Iterator[tuple[str, Problem]]:
    """By name."""
    for side, labels in ((10, 8), (20, 8), (30, 10)):
        yield f"grid {side} x {side}", grid(side, labels)
    for nodes, labels, share in ((15, 8, 1.0), (30, 8, 1.0), (60, 6, 0.3)):
        part = "all pairs" if share == 1 else f"{share:.0%} of all pairs"
        yield f"{nodes} nodes, {part}", linked(nodes, labels, share)


def grid(side: int, labels: int) -> Problem:
    """Each node linked with those beside and below it."""
    numbers = np.random.default_rng(side)
    problem = Problem()
    for at in range(side * side):
        problem.add_node(f"{at // side},{at % side}", numbers.random(labels))
    for at in range(side * side):
        if at % side:
            problem.add_edge(at - 1, at, numbers.random((labels, labels)))
        if at >= side:
            problem.add_edge(at - side, at, numbers.random((labels, labels)))
    return problem


def linked(nodes: int, labels: int, share: float) -> Problem:
    """A part of all pairs of nodes linked."""
    numbers = np.random.default_rng(nodes)
    problem = Problem()
    for at in range(nodes):
        problem.add_node(str(at), numbers.random(labels))
    for u, v in combinations(range(nodes), 2):
        if numbers.random() < share:
            problem.add_edge(u, v, numbers.random((labels, labels)))
    return problem


def row(name: str, problem: Problem, seconds: float, moments: list[float]) -> str:
    """The gap at each moment: what was known when it was over."""
    seen: list[tuple[float, float]] = []
    found = solve(
        problem,
        time_limit=seconds,
        progress=lambda at, _, bound, cost: seen.append((at, relative_gap(cost, bound))),
    )
    gaps = []
    for moment in moments:
        until = [gap for at, gap in seen if at <= moment + 0.05]
        gaps.append(f"{until[-1]:.1%}" if until and found.seconds > moment else "")
    end = "proved" if found.proved else f"{found.gap:.1%}"
    cells = [name, str(len(problem.nodes[0].costs)), *gaps, end, f"{found.seconds:.1f}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
