"""A module of these benches run by valgrind, which counts its instructions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["instructions_by_process", "run_counted"]

_HERE = Path(__file__).resolve().parents[1]


def run_counted(
    tool: str, options: Sequence[str], module: Sequence[str], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m`` with `module` under a tool of valgrind's; what valgrind counted is on
    stderr. Hashes and addresses are the same in each run.

    Raises:
        SystemExit: it failed.
    """
    counting = ("valgrind", f"--tool={tool}", *options, f"--{tool}-out-file=/dev/null")
    ran = subprocess.run(
        ["setarch", "-R", *counting, sys.executable, "-m", *module],
        cwd=_HERE,
        env=os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise SystemExit(f"{' '.join(module)}: {ran.stderr}")
    return ran


def instructions_by_process(ran: subprocess.CompletedProcess[str]) -> dict[int, int]:
    """What cachegrind, or callgrind, counted of each process of a run, by its number."""
    counted = re.findall(r"==(\d+)== (?:I +refs *|Collected +): +([\d,]+)", ran.stderr)
    return {int(process): int(count.replace(",", "")) for process, count in counted}
