"""Plans for LLaMA3-8B, from the model to the proof: ``python -m bench.model_plans``.

Each case runs in a process of its own, so that nothing is known beforehand and the peak of memory
is its own. The topology is h100-nvlink; the batch of 16 sequences of 8,192 tokens is free to be
sharded in any way.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import warnings
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch.distributed.device_mesh import init_device_mesh

from .llama import BATCH, SEQ, build

# Layers, mesh, part of the parameters that a rank may hold.
CASES: list[tuple[int, tuple[int, ...], float | None]] = [
    (2, (8, 8), None),
    (2, (8, 8), 1 / 32),
    (32, (8, 8), None),
    (32, (8, 8), 1 / 32),
    (1, (4, 4, 4), None),
    (1, (4, 4, 4), 1 / 32),
]


def plan(layers: int, shape: tuple[int, ...], memory: float | None) -> dict[str, Any]:
    """Capture and solve in this process, with strided strategies and without."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from shardprop import graph

    warnings.simplefilter("ignore")
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=64)
    mesh = init_device_mesh("cpu", shape)
    model = build(layers)
    tokens = torch.empty(BATCH, SEQ, dtype=torch.int64, device="meta")
    parameter_bytes = sum(p.numel() * p.itemsize for p in model.parameters())
    limit = None if memory is None else memory * parameter_bytes
    found: dict[str, Any] = {}
    for strided in (True, False):
        captured = graph.capture(
            model,
            (tokens,),
            mesh,
            topology="h100-nvlink",
            parameter_memory=limit,
            strided=strided,
        )
        made = captured.solve()
        solution = made.solution
        if not strided:
            found["us_without_strided"] = solution.objective
            continue
        uses = {
            str(node.op)
            for node in captured.program.nodes
            for placements in made.given(node.index)
            if node.op is not None and any(hasattr(p, "split_factor") for p in placements or ())
        }
        found |= {
            **captured.seconds,
            "solve": solution.seconds,
            "nodes": len(captured.program.nodes),
            "labels": sum(node.count for node in captured.problem.nodes),
            "us": solution.objective,
            "gap": solution.gap,
            "proved": solution.proved,
            "without_rule": captured.without_rule,
            "strided_ops": sorted(uses),
            "strided_tensors": sum(
                any(hasattr(p, "split_factor") for p in placements or ())
                for node in captured.program.nodes
                for placements in made.given(node.index)
            ),
            "collectives": made.volume.collectives,
            "wire_bytes": made.volume.wire_bytes,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    return found


def main() -> None:
    """Run every case, or with arguments ``LAYERS MESH [MEMORY]`` one, printed as JSON."""
    if len(sys.argv) > 1:
        given = sys.argv[1:]
        sizes = tuple(map(int, given[1].split("x")))
        print(json.dumps(plan(int(given[0]), sizes, float(given[2]) if given[2:] else None)))
        return
    table = Table(title="LLaMA3-8B, from the model to the proof, seconds")
    for name in ("layers", "mesh", "memory", "trace", "strategies", "prices", "solve", "in all"):
        table.add_column(name, justify="right")
    for name in ("nodes", "labels", "MiB", "us", "gap", "proved", "us without strided", "strided"):
        table.add_column(name, justify="right")
    for layers, shape, memory in CASES:
        table.add_row(*_row(layers, shape, memory))
    Console(width=200).print(table)


def _row(layers: int, shape: tuple[int, ...], memory: float | None) -> list[str]:
    arguments = [str(layers), "x".join(map(str, shape)), *([] if memory is None else [str(memory)])]
    done = subprocess.run(
        [sys.executable, "-m", "bench.model_plans", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    parts = [found[name] for name in ("trace", "strategies", "prices", "solve")]
    return [
        str(layers),
        arguments[1],
        "any" if memory is None else f"1/{1 / memory:.0f}",
        *(f"{seconds:.2f}" for seconds in [*parts, sum(parts)]),
        str(found["nodes"]),
        str(found["labels"]),
        f"{found['peak_mib']:.0f}",
        f"{found['us']:.1f}",
        f"{found['gap']:.0e}",
        str(found["proved"]),
        f"{found['us_without_strided']:.1f}",
        str(found["strided_tensors"]),
    ]


if __name__ == "__main__":
    main()
