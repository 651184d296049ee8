"""Puts the figure and the tables of a bench run into the README and docs/performance.md.

    pytest bench --benchmark-json=bench.json && python bench/table.py bench.json [FILE ...]

A file gets the tables that it has markers for; without a file, all are printed. A time is the
least of all rounds; of several runs (``a.json b.json``) on one machine, of the rounds of all. A
ratio holds on a noisy machine, an absolute time does not.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

FIGURE = "engine mm", 4
MESH_DIMS = (1, 2, 3, 4)

# The ratios the project set out to reach, by mesh dims, for the groups they were set for.
ASKED = {
    "engine strided bmm": {2: 10_000},
    "foreach_add on 300 parameters": {1: 30, 2: 100},
    **{
        f"first {job} on 300 parameters": {1: 30, 2: 100}
        for job in ("AdamW step", "fused AdamW step", "SGD step", "clip_grad_norm_")
    },
    "plan graph": {4: 10_000},
    "block at a new sequence length, forward": {2: 20},
    "block at a new sequence length, forward and backward": {2: 20},
}
# Likewise, for each group whose name begins so.
ASKED_OF_EVERY = {
    "engine": {1: 100, 2: 1_000, 3: 5_000, 4: 20_000},
    "first miss": {1: 25, 2: 100, 3: 1_000, 4: 10_000},
}

# What docs/performance.md tells of a miss, by the start of the group and who is timed.
MISS_COLUMNS = {
    "first: torch": ("first miss", "torch"),
    "first: shardprop": ("first miss", "shardprop"),
    "forgotten: torch": ("forgotten miss", "torch"),
    "forgotten: shardprop": ("forgotten miss", "shardprop"),
    "floor": ("forgotten miss", "floor"),
    "hit": ("forgotten miss", "hit"),
}

Times = dict[str, dict[int, dict[str, float]]]  # what -> mesh dims -> who -> microseconds


def duration(microseconds: float) -> str:
    if microseconds < 99.5:
        return f"{microseconds:.1f} us"
    if microseconds < 999.5:
        return f"{microseconds:.0f} us"
    if microseconds < 9_950:
        return f"{microseconds / 1e3:.1f} ms"
    return f"{microseconds / 1e3:,.0f} ms"


def times_of(results: dict[str, Any]) -> Times:
    times: Times = defaultdict(lambda: defaultdict(dict))
    for bench in results["benchmarks"]:
        named = re.fullmatch(r"(.*) (\d)-D", bench["group"])
        if named is None:
            continue  # not torch beside us over mesh dims: it prints its own figures
        what, ndim = named.groups()
        times[what][int(ndim)][bench["params"]["who"]] = bench["stats"]["min"] * 1e6
    return times


def row(label: str, cells: list[str]) -> str:
    return f"| {label} | " + " | ".join(cells) + " |"


def ratio_row(what: str, by_ndim: dict[int, dict[str, float]]) -> str:
    def cell(who: dict[str, float]) -> str:
        if not {"torch", "shardprop"} <= who.keys():
            return ""
        a, b = who["torch"], who["shardprop"]
        return f"**{a / b:,.0f}x** {duration(a)} / {duration(b)}"

    return row(what, [cell(by_ndim.get(n, {})) for n in MESH_DIMS])


def asked_row(label: str, ratios: dict[int, int]) -> str:
    return row(label, [f"{ratios[n]:,}x" if n in ratios else "" for n in MESH_DIMS])


def headline(results: dict[str, Any]) -> str:
    """The README's one line."""
    who = times_of(results)[FIGURE[0]][FIGURE[1]]
    theirs, ours = who["torch"], who["shardprop"]
    return (
        f"**mm on a {FIGURE[1]}-D mesh: torch {duration(theirs)}, shardprop {duration(ours)}, "
        f"{theirs / ours:,.0f} times faster.**"
    )


def ratios(results: dict[str, Any]) -> str:
    """torch against shardprop, by mesh dims."""
    times = times_of(results)
    lines = [
        "| torch / shardprop | 1-D | 2-D | 3-D | 4-D |",
        "|---|---:|---:|---:|---:|",
        *(asked_row(f"asked of every {what} row", r) for what, r in ASKED_OF_EVERY.items()),
    ]
    for what in sorted(times):
        if what.startswith("forgotten miss") or what == "first miss mm that redistributes":
            continue  # these are in docs/performance.md
        lines.append(ratio_row(what, times[what]))
        if what in ASKED:
            lines.append(asked_row("asked", ASKED[what]))
    return "\n".join([*lines, "", made_on(results)])


def misses(results: dict[str, Any]) -> str:
    """What each miss takes, and what a call takes that asks for no decision."""
    times = times_of(results)
    lines = [row("miss", list(MISS_COLUMNS)), "|---|" + "---:|" * len(MISS_COLUMNS)]
    for ndim in MESH_DIMS:
        for what in sorted(times):
            op = what.removeprefix("forgotten miss ")
            if op == what or ndim not in times[what]:
                continue
            found = [times[f"{kind} {op}"][ndim].get(who) for kind, who in MISS_COLUMNS.values()]
            lines.append(row(f"{op}, {ndim}-D", [duration(t) if t else "" for t in found]))
    return "\n".join([*lines, "", made_on(results)])


def made_on(results: dict[str, Any]) -> str:
    machine = results["machine_info"]
    cpu = machine["cpu"]
    return (
        f"torch {machine['torch']}, Python {machine['python_version']}, "
        f"{cpu.get('brand_raw', 'unknown CPU')}, {cpu.get('count', '?')} shared and noisy cores, "
        f"{results['datetime'][:10]}."
    )


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "bench": ratios,
    "headline": headline,
    "misses": misses,
}


def write(path: Path, results: dict[str, Any]) -> None:
    """Replace what is between the markers of the tables that the file has."""
    text = path.read_text()
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: made by bench/table.py -->", f"<!-- /{name} -->"
        if begin in text:
            before, rest = text.split(begin)
            text = f"{before}{begin}\n{table(results)}\n{end}{rest.split(end)[1]}"
    path.write_text(text)


def least_of(runs: list[str]) -> dict[str, Any]:
    """The last of some runs, with each bench as the run had it that was the least disturbed."""
    results: dict[str, Any] = {}
    best: dict[str, Any] = {}
    for run in runs:
        results = json.loads(Path(run).read_text())
        for bench in results["benchmarks"]:
            known = best.get(bench["fullname"], bench)
            best[bench["fullname"]] = min(known, bench, key=lambda one: one["stats"]["min"])
    return {**results, "benchmarks": list(best.values())}


def main() -> None:
    runs = [name for name in sys.argv[1:] if name.endswith(".json")]
    files = [name for name in sys.argv[1:] if name not in runs]
    results = least_of(runs)
    for name in files:
        write(Path(name), results)
    if not files:
        print(*(table(results) for table in TABLES.values()), sep="\n\n")


if __name__ == "__main__":
    main()
