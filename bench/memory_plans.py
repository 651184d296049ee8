"""Plans for LLaMA3-8B, well-known ones beside the best, and the best in less memory than it takes:
``python -m bench.memory_plans``.

The case is that of `bench.model_plans`, trained with AdamW; bytes are those of the rank that holds
most. The time of a step is that of `ModelPlan.timeline`, its cost that of one thing after another;
"with overlap" is the plan that was found with ``overlap=True``.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Sequence

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch.distributed.device_mesh import init_device_mesh

from shardprop import graph
from shardprop.planning.models.baselines import baselines

from .llama import BATCH, SEQ, build

ADAM = torch.optim.AdamW
GIB = 2**30


def main() -> None:
    """Plan, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory_plans")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--mesh", default="8x8")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.8, 0.6])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each plan")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    shape = tuple(map(int, options.mesh.split("x")))
    dist.init_process_group("fake", rank=0, world_size=int(torch.tensor(shape).prod()))
    tokens = torch.empty(BATCH, SEQ, dtype=torch.int64, device="meta")
    mesh = init_device_mesh("cpu", shape)
    captured = graph.capture(build(options.layers), (tokens,), mesh, topology="h100-nvlink")
    table = Table(title=f"LLaMA3-8B, {options.layers} layers, {options.mesh}")
    for name in ("GiB a rank", "cost, us", "gap", "step, us", "peak", "held", "kept", "seconds"):
        table.add_column(name, justify="right")
    free = captured.solve()
    peak = free.memory(ADAM).peak
    table.add_row("any", *_row(free, free.solution.seconds))
    began = time.perf_counter()
    beside = captured.solve(overlap=True, time_limit=options.seconds)
    table.add_row("with overlap", *_row(beside, time.perf_counter() - began))
    for name, solution, _ in baselines(captured.problem, captured.labelled, options.seconds):
        if solution is not None:
            table.add_row(name, *_row(captured.plan(solution), solution.seconds))
    for share in options.shares:
        began = time.perf_counter()
        limit = share * peak
        try:
            plan = captured.solve(memory=limit, optimizer=ADAM, time_limit=options.seconds)
            row: Sequence[str] = _row(plan, time.perf_counter() - began)
        except graph.UnsolvedError as error:
            row = (f"none found; at least {error.lower_bound:.0f}",)
        table.add_row(f"{limit / GIB:.2f}", *row)
    Console(width=120).print(table)


def _row(plan: graph.ModelPlan, seconds: float) -> list[str]:
    memory = plan.memory(ADAM)
    return [
        f"{plan.cost_us:.0f}",
        f"{plan.solution.gap:.1%}",
        f"{plan.timeline().us:.0f}",
        *(f"{each / GIB:.2f}" for each in (memory.peak, memory.held, memory.kept)),
        f"{seconds:.1f}",
    ]


if __name__ == "__main__":
    main()
