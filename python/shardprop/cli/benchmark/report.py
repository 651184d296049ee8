"""What is shown of a benchmark."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import torch
from rich.table import Table

from ...support import console
from .measuring import Measured

__all__ = ["table", "values"]


def values(found: Sequence[Measured]) -> dict[str, Any]:
    """Plain values; times in microseconds."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {platform.system()}",
        "all_equal": all(one.equal for one in found),
        "results": [
            {
                "op": one.op,
                "mesh": list(one.mesh),
                "kind": one.kind,
                "torch_us": round(one.torch_us, 3),
                "shardprop_us": round(one.shardprop_us, 3),
                "ratio": round(one.ratio, 2),
                "rounds": one.rounds,
                "equal": one.equal,
            }
            for one in found
        ],
    }


def table(found: Sequence[Measured]) -> Table:
    """One row for each question."""
    headings = ("op", "mesh", "asked", "torch us", "shardprop us", "ratio", "decisions")
    rows = [
        (
            one.op,
            one.mesh_text,
            one.kind,
            f"{one.torch_us:,.0f}",
            f"{one.shardprop_us:,.1f}",
            f"{one.ratio:,.0f}",
            "equal" if one.equal else "DIFFERENT",
        )
        for one in found
    ]
    return console.table(headings, rows, right=range(3, 6))
