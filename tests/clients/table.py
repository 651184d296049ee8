"""Runs every client and writes what was found into docs/clients.md.

python -m tests.clients.table
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import torch

from tests.python.programs.compare import Report
from tests.python.programs.pool import Pool

from .cases import CASES

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
BEGIN, END = "<!-- clients: begin -->", "<!-- clients: end -->"
HEAD = (
    "| library | program | ranks | equal | decisions by the core | left to torch | refused | "
    "propagation, torch alone | with shardprop |",
    "|---|---|---:|---|---:|---:|---:|---:|---:|",
)


def main() -> None:
    """Write the table."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = [*HEAD, *rows()]
    said = f"torch {torch.__version__}, CPU, gloo; times of rank 0, in milliseconds."
    table = "\n".join([BEGIN, said, "", *lines, END])
    PAGE.write_text(f"{before}{table}{after}", encoding="utf-8")


def rows() -> list[str]:
    """A row for each client."""
    made: list[str] = []
    for name, case in CASES.items():
        pool = Pool(case.ranks)
        try:
            made.append(
                _row(f"{case.library} {version(case.library)}", name, pool.run(case.program))
            )
        finally:
            pool.close()
        print(made[-1], flush=True)
    return made


def _row(library: str, name: str, reports: list[Report]) -> str:
    first = reports[0]
    stats = first.stats
    is_equal = all(report.differences == () and report.finite for report in reports)
    left = sum(stats.fallbacks.values()) + sum(stats.delegated.values())
    alone, ours = (f"{1e3 * seconds:,.0f}" for seconds in first.propagation)
    cells = (
        *(library, name, len(reports), "to the bit" if is_equal else "**no**"),
        *(stats.decisions, left, sum(stats.refused.values()), alone, ours),
    )
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
