"""Solves the whole-graph instances of a folder and prints a table of times.

    python bench/graph.py FOLDER [--highs SECONDS] [--repetitions N]

Times are wall-clock seconds, the median of the repetitions; HiGHS runs once, with a time limit (0
leaves it out). Optimum and gap are those of the core; HiGHS must find the same optimum.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from shardprop import _core
from shardprop.graph import Problem, Solution, UnsolvedError, load_instance, solve
from shardprop.planning.graph.lowered import lower

Result = TypeVar("Result")

HEADER = (
    "| instance | nodes, edges, labels | optimum | gap | all | lower | hand over | solve | HiGHS |",
    "|---|---|---:|---:|---:|---:|---:|---:|---:|",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--highs", type=float, default=120.0, help="seconds; 0: without")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    print("\n".join(HEADER))
    for file in sorted(options.folder.glob("*.json")):
        print(row(file, options.highs, options.repetitions), flush=True)


def row(file: Path, highs_limit: float, repetitions: int) -> str:
    """One instance."""
    problem = load_instance(file)
    whole, solution = median(repetitions, lambda: solve(problem, solver="core"))
    lowering, lowered = median(repetitions, lambda: lower(problem))
    parts = (lowered.unaries, lowered.tables, lowered.edges, lowered.classes)
    handing, graph = median(
        repetitions, lambda: _core.GraphProblem(*parts, lowered.groups, lowered.rows)
    )
    inside, _ = median(repetitions, lambda: _core.solve_graph(graph))
    assert solution.proved and problem.check(solution.labels).feasible
    labels = sum(int(left.sum()) for left in problem.left)
    return (
        f"| {file.stem} | {len(problem.nodes)}, {len(problem.edges)}, {labels:,} "
        f"| {solution.objective:.8f} | {solution.gap:.0e} | {whole:.3f} s | {lowering:.3f} s "
        f"| {handing:.3f} s | {inside:.3f} s | {highs(problem, solution, highs_limit)} |"
    )


def highs(problem: Problem, expected: Solution, limit: float) -> str:
    """The time of HiGHS, with its gap where it proves nothing in time."""
    if not limit:
        return "-"
    try:
        solution = solve(problem, solver="highs", time_limit=limit)
    except UnsolvedError:
        return f"no labels in {limit:g} s"
    if not solution.proved:
        return f"gap {solution.gap:.1e} in {solution.seconds:.0f} s"
    assert abs(solution.objective - expected.objective) <= 1e-8 * abs(expected.objective)
    return f"{solution.seconds:.1f} s"


def median(repetitions: int, run: Callable[[], Result]) -> tuple[float, Result]:
    """Median seconds, and the last result."""
    seconds = []
    for _ in range(repetitions):
        began = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), result


if __name__ == "__main__":
    main()
