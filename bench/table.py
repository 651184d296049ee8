"""Prints the table of ratios from the JSON of a bench run, and puts it into the README.

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

# Ratios the project set out to reach, per group prefix and mesh dims.
TARGETS = {
    "engine ": {1: 100, 2: 1_000, 3: 5_000, 4: 20_000},
    "engine strided": {2: 10_000},
    "miss ": {1: 10, 2: 50, 3: 400, 4: 4_000},
    "foreach_add": {1: 30, 2: 100},
}


def microseconds(value: float) -> str:
    if value < 100:
        return f"{value:.1f} us"
    return f"{value:.0f} us" if value < 1e4 else f"{value / 1e3:,.0f} ms"


def target_of(group: str) -> int | None:
    ndim = int(re.search(r"(\d)-D$", group)[1])  # type: ignore[index]
    for prefix in sorted(TARGETS, key=len, reverse=True):
        if group.startswith(prefix):
            return TARGETS[prefix].get(ndim)
    return None


def rows_of(results: dict[str, Any]) -> list[tuple[str, float, float, int | None]]:
    medians: dict[str, dict[str, float]] = defaultdict(dict)
    for bench in results["benchmarks"]:
        medians[bench["group"]][bench["params"]["who"]] = bench["stats"]["median"] * 1e6
    return [(g, m["torch"], m["shardprop"], target_of(g)) for g, m in medians.items()]


def table(results: dict[str, Any]) -> str:
    machine = results["machine_info"]
    lines = ["| what | torch | shardprop | ratio | asked |", "|---|---:|---:|---:|---:|"]
    for group, torch_us, our_us, target in sorted(rows_of(results)):
        asked = f"{target:,}" if target else "-"
        lines.append(
            f"| {group} | {microseconds(torch_us)} | {microseconds(our_us)} "
            f"| {torch_us / our_us:,.0f} | {asked} |"
        )
    versions = results["commit_info"].get("torch") or results.get("version", "")
    lines.append("")
    lines.append(
        f"Python {machine['python_version']}, {machine['cpu'].get('brand_raw', 'unknown CPU')}, "
        f"{machine['cpu'].get('count', '?')} cores, {results['datetime'][:10]}, "
        f"torch {machine.get('torch', versions)}."
    )
    return "\n".join(lines)


def main() -> None:
    text = table(json.loads(Path(sys.argv[1]).read_text()))
    if len(sys.argv) < 3:
        print(text)
        return
    path = Path(sys.argv[2])
    page = path.read_text()
    before, rest = page.split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
