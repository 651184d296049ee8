"""A topology file that uses every part of the schema, and changed copies of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

FULL: dict[str, Any] = {
    "name": "two nodes",
    "sources": ["made up"],
    "launch_us": 5.0,
    "memory": {"kernel_us": 2.0, "bandwidth_gb_s": 1000.0},
    "compute": {"peak_tflops": {"float32": 20.0, "bfloat16": 300.0}, "efficiency": 0.75},
    "all_to_all_gathers": True,
    "node": {
        "within": {
            "latency_us": 1.0,
            "bandwidth_gb_s": 100.0,
            "permute": {"latency_us": 0.5, "bandwidth_gb_s": 50.0},
        },
        "between": {"devices": 4, "latency_us": 3.0, "bandwidth_gb_s": 10.0},
    },
    "groups": [
        {"mesh_dims": ["tp"], "latency_us": 0.25, "bandwidth_gb_s": 200.0},
        {
            "mesh_dims": [0, 1],
            "latency_us": 2.0,
            "bandwidth_gb_s": 20.0,
            "all_gather": {"fixed_us": 40.0, "bandwidth_gb_s": 16.0},
        },
    ],
}

MISSING = object()


def changed(path: str, value: object) -> dict[str, Any]:
    """`FULL` with another value at a path such as ``groups.1.all_gather``; or without it."""
    document = copy.deepcopy(FULL)
    *way, last = path.split(".")
    at: Any = document
    for step in way:
        at = at[int(step) if isinstance(at, list) else step]
    key: Any = int(last) if isinstance(at, list) else last
    if value is MISSING:
        del at[key]
    else:
        at[key] = value
    return document


def paths(at: Any = FULL, way: str = "") -> Iterator[str]:
    """The path of every value in the document, as `changed` takes it."""
    for key, value in at.items() if isinstance(at, dict) else enumerate(at):
        here = f"{way}.{key}" if way else str(key)
        yield here
        if isinstance(value, (dict, list)):
            yield from paths(value, here)
