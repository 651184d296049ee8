"""Solves the whole-graph instances of a folder and prints a table of times.

    python bench/graph.py FOLDER [--repetitions N]

Times are wall-clock seconds, the median of the repetitions.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from shardprop import _core
from shardprop.graph import load_instance, solve
from shardprop.planning.graph.lowered import lower

Result = TypeVar("Result")

HEADER = (
    "| instance | nodes, edges, labels | optimum | gap | all | lower | hand over | solve |",
    "|---|---|---:|---:|---:|---:|---:|---:|",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    print("\n".join(HEADER))
    for file in sorted(options.folder.glob("*.json")):
        print(row(file, options.repetitions), flush=True)


def row(file: Path, repetitions: int) -> str:
    """One instance."""
    problem = load_instance(file)
    whole, solution = median(repetitions, lambda: solve(problem))
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
        f"| {handing:.3f} s | {inside:.3f} s |"
    )


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
