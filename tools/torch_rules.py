"""Writes docs/torch-rules.md from what `shardprop validate` found of torch's rules.

shardprop validate --all --rule torch --json > found.json
python tools/torch_rules.py found.json docs
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_HEAD = """# torch's own sharding rules, put to the test

What `shardprop validate` finds of the rules in torch {torch}: {ops} ops that have a rule,
{checks:,} executions on simulated ranks, seed {seed}; written by `tools/torch_rules.py`. Ops with
unsound rows were tried again with `--rule torch --plans`, those rows are listed. A row is operands
-> outputs; `_S(d, f)` is a `_StridedShard` of split factor f; rows with ` ; ` between them are on
the mesh dims of one mesh. Of `redistribute` the rows are source -> target.

`shardprop validate OP --rule torch --repro DIR` finds the rows of an op again and writes a script
for each: a page with what every rank holds of a small call, the op on each rank, and what they hold
together beside the op on whole tensors. It needs torch alone. What a rule claims depends on the
version of torch; what an op makes of local tensors hardly does. Of `redistribute`, `shardprop
validate --plans` finds them again, without scripts.

What shardprop does about them: for a call that a correction ([corrections.md](corrections.md))
concerns, a rule of ours decides in place of torch's, or the rows that do not hold are left out. The
other rows of torch's single-dim rules are used as they are. Plans are torch's, save those that
would move wrong data: others take their place.
"""

_SILENT = """
## Wrong values

The rows are claimed, and what the ranks hold together is not what the op gives.

| op | rows | mesh | call | what differs |
|---|---|---|---|---|
"""

_RAISING = """
## A rank raises

The rows are claimed, and the op raises on the local tensors of a rank. A program stops there.

| op | rows | mesh | call | what a rank raises |
|---|---|---|---|---|
"""

_EMPTY = """
## A rank without elements

torch cuts a tensor dim that has at least as many elements as ranks; chunks are rounded up, so
that of 4 elements on 3 ranks the last has none. These ops raise on a tensor without elements:

"""

_MISSING = """
## Rows that hold and are not claimed

On every call that was tried, and not claimed on any. A row may be left out of a rule for good
reason (it moves no less, or holds for the values that were tried only), so this is a list to
choose from. Left out: Partials of product and the bitwise ops, which hardly any program has, and
the `out=` forms, which follow the functional ones (`shardprop validate OP --rule torch
--show-missing` has all).

"""


def _rows(findings: list[dict[str, Any]]) -> str:
    rows = [" ; ".join(f"`{row}`" for row in finding["rows"]) for finding in findings[:3]]
    more = f" and {len(findings) - 3} more" if len(findings) > 3 else ""
    return "<br>".join(rows) + more


def _cell(text: str, width: int = 160) -> str:
    shown = text if len(text) <= width else text[: width - 3] + "..."
    return shown.replace("|", "\\|")


def _table(found: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    for op, findings in sorted(found.items()):
        first = min(findings, key=lambda one: len(one["rows"]))
        findings = [first, *(one for one in findings if one is not first)]
        mesh = "x".join(map(str, first["mesh"]))
        call = _cell(first["call"].partition("(")[2].removesuffix(")"), 90)
        cells = (op, _rows(findings), mesh, f"`{call}`", _cell(first["reason"]))
        yield "| " + " | ".join(cells) + " |"


def _missing(report: dict[str, Any]) -> str:
    rows = [one["rows"][0] for one in report["findings"] if one["kind"] == "missing"]
    rare = ("P(product)", "P(band)", "P(bor)", "P(bxor)")
    return "; ".join(f"`{row}`" for row in rows if not any(name in row for name in rare))


def main(source: Path, docs: Path) -> None:
    """Write the document."""
    found = json.loads(source.read_text())
    silent: dict[str, list[dict[str, Any]]] = {}
    raising: dict[str, list[dict[str, Any]]] = {}
    empty: set[str] = set()
    for report in found["ops"]:
        for finding in report["findings"]:
            if finding["kind"] != "unsound":
                continue
            if not finding["raises"]:
                silent.setdefault(report["op"], []).append(finding)
            elif "shard is empty" in finding["reason"]:
                empty.add(report["op"])
            else:
                raising.setdefault(report["op"], []).append(finding)
    for op in silent:
        raising.pop(op, None)  # it is listed already, for what is worse
    text = _HEAD.format(
        torch=found["torch"],
        ops=found["summary"]["ops"],
        checks=found["summary"]["checks"],
        seed=found["settings"]["seed"],
    )
    text += _SILENT + "\n".join(_table(silent)) + "\n"
    text += _RAISING + "\n".join(_table(raising)) + "\n"
    text += _EMPTY + ", ".join(f"`{op}`" for op in sorted(empty)) + ".\n" + _MISSING
    for report in found["ops"]:
        rows = "" if "out" in report["op"].rpartition(".")[2] else _missing(report)
        if rows:
            text += f"- **{report['op']}**: {rows}\n"
    (docs / "torch-rules.md").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
