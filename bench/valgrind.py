"""A module of these benches run by valgrind, which counts its instructions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["run_counted"]

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
