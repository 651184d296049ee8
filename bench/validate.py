"""`shardprop validate` beside the validator that comes with torch, each as it is typed.

    python bench/validate.py [--op add] [--overload add.Tensor]

Run by hand: torch's takes a minute for `add`. Both are whole processes, so that imports count;
processor seconds say more than the clock on a machine that is shared. torch's validator looks at
one overload, two ranks and no strided shards; ours is also run so.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

TORCHS = (*("-m", "torch.distributed.tensor._ops.strategy_validation"), *("--device", "cpu"))
IMPORTS = (
    "import shardprop.verification.validate.command as c, shardprop._torch as t; "
    "t.opinfos({}).__enter__()"
)
ALIKE = ("--ranks", "2", "--composed", "none", "--no-strided")


@dataclass(frozen=True)
class Run:
    """One process."""

    what: str
    seconds: float
    processor_seconds: float


def measured(what: str, *arguments: str) -> Run:
    """Run Python with these arguments."""
    before = _processor_seconds()
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{what} ended with {done.returncode}:\n{done.stderr}")
    return Run(what, seconds, _processor_seconds() - before)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--op", default="add", help="as torch's validator knows it")
    parser.add_argument("--overload", default="add.Tensor", help="what it tries of that")
    asked = parser.parse_args()
    ours = ("-m", "shardprop", "validate")
    runs = [
        measured("torch", *TORCHS, "--op", asked.op),
        measured("shardprop, all overloads", *ours, asked.op),
        measured("shardprop, one overload", *ours, asked.overload),
        measured("shardprop, one overload, what torch tries", *ours, asked.overload, *ALIKE),
        measured("imports alone", "-c", IMPORTS),
    ]  # fmt: skip
    base = runs[-1]
    table = Table("", "s", "ratio", "processor s", "ratio", "ratio past imports", box=None)
    for run in runs:
        past = run.processor_seconds - base.processor_seconds
        whole = runs[0].processor_seconds - base.processor_seconds
        table.add_row(
            run.what,
            f"{run.seconds:.1f}",
            f"{runs[0].seconds / run.seconds:.1f}x",
            f"{run.processor_seconds:.1f}",
            f"{runs[0].processor_seconds / run.processor_seconds:.1f}x",
            f"{whole / past:.1f}x" if past > 0.05 else "",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
