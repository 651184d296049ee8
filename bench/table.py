"""Puts the figure and the table of ratios of a bench run into the README (or prints them).

    pytest bench --benchmark-json=bench.json && python bench/table.py bench.json [README.md]

Medians; a ratio holds on a noisy machine, an absolute time does not.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- bench: made by bench/table.py -->", "<!-- /bench -->"
FIGURE = "engine mm", 4

# The ratios the project set out to reach, by mesh dims, for the groups they were set for.
ASKED = {
    "engine": {1: 100, 2: 1_000, 3: 5_000, 4: 20_000},
    "engine strided bmm": {2: 10_000},
    "foreach_add on 300 parameters": {1: 30, 2: 100},
    **{
        f"first {job} on 300 parameters": {1: 30, 2: 100}
        for job in ("AdamW step", "fused AdamW step", "SGD step", "clip_grad_norm_")
    },
    "plan graph": {4: 10_000},
    "miss mm": {1: 10, 2: 50, 3: 400, 4: 4_000},
}

Times = dict[str, dict[int, tuple[float, float]]]  # what -> mesh dims -> (torch, shardprop) in us


def duration(microseconds: float) -> str:
    if microseconds < 99.5:
        return f"{microseconds:.1f} us"
    if microseconds < 9_950:
        return f"{microseconds / 1e3:.1f} ms"
    return f"{microseconds / 1e3:,.0f} ms"


def times_of(results: dict[str, Any]) -> Times:
    medians: dict[str, dict[str, float]] = defaultdict(dict)
    for bench in results["benchmarks"]:
        medians[bench["group"]][bench["params"]["who"]] = bench["stats"]["median"] * 1e6
    times: Times = defaultdict(dict)
    for group, median in medians.items():
        what, ndim = re.fullmatch(r"(.*) (\d)-D", group).groups()  # type: ignore[union-attr]
        times[what][int(ndim)] = median["torch"], median["shardprop"]
    return times


def row(label: str, cells: dict[int, str]) -> str:
    return f"| {label} | " + " | ".join(cells.get(n, "") for n in (1, 2, 3, 4)) + " |"


def table(results: dict[str, Any]) -> str:
    times = times_of(results)
    theirs, ours = times[FIGURE[0]][FIGURE[1]]
    lines = [
        f"**mm on a {FIGURE[1]}-D mesh: torch {duration(theirs)}, shardprop {duration(ours)}, "
        f"{theirs / ours:,.0f} times faster.**",
        "",
        "| torch / shardprop | 1-D | 2-D | 3-D | 4-D |",
        "|---|---:|---:|---:|---:|",
    ]
    for what in sorted(times):
        cells = {
            n: f"**{a / b:,.0f}x** {duration(a)} / {duration(b)}"
            for n, (a, b) in times[what].items()
        }
        lines.append(row(what, cells))
        if what in ASKED:
            lines.append(row("asked", {n: f"{ratio:,}x" for n, ratio in ASKED[what].items()}))
    lines.insert(
        4, row("asked of every engine row", {n: f"{r:,}x" for n, r in ASKED["engine"].items()})
    )
    machine = results["machine_info"]
    cpu = machine["cpu"]
    lines += [
        "",
        f"torch {machine['torch']}, Python {machine['python_version']}, "
        f"{cpu.get('brand_raw', 'unknown CPU')}, {cpu.get('count', '?')} shared and noisy cores, "
        f"{results['datetime'][:10]}.",
    ]
    return "\n".join(lines)


def main() -> None:
    text = table(json.loads(Path(sys.argv[1]).read_text()))
    if len(sys.argv) < 3:
        print(text)
        return
    path = Path(sys.argv[2])
    before, rest = path.read_text().split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
