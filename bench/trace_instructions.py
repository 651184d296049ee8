"""What a trace adds to the first step of the demo's transformer on 2x2x2, in instructions.

    python -m bench.trace_instructions

The same question as test_tracing.py, answered by valgrind (``--tool=callgrind``), which counts
instead of taking the time: what a trace adds is less than what a busy machine makes of a step from
one moment to the next. Each kind of step is counted in processes of few and of many steps; the
difference is free of what a process does once. Propagation is what a step with cold caches takes
more than one with warm ones. The garbage collector is off: its rounds fall now here, now there.
Takes some ten minutes of two processors.
"""

from __future__ import annotations

import gc
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import torch

import shardprop
from shardprop.cli.demo_program.llama import LlamaSize
from shardprop.cli.demo_program.settings import Settings
from shardprop.cli.demo_program.train import Trainer
from shardprop.cli.ranks import fake_mesh, fake_ranks
from shardprop.support.torch_advice import without_torch_advice

from .training import forget
from .valgrind import instructions_by_process, run_counted

KINDS = ("warm", "cold", "traced")
FEW, MANY = 1, 7


def new_trainer() -> Trainer:
    """Of the model whose steps are looked at."""
    settings = Settings(mesh=(2, 2, 2), model=LlamaSize())
    return Trainer(settings, fake_mesh(settings.mesh, settings.names), torch.float32)


def steps(kind: str, count: int) -> None:
    """The process that is counted."""
    torch.set_num_threads(1)
    gc.disable()
    with fake_ranks(8), without_torch_advice(), shardprop.enabled():
        trainer = new_trainer()
        trainer.step()
        for _ in range(count):
            if kind != "warm":
                forget()
            with shardprop.trace() if kind == "traced" else nullcontext():
                trainer.step()


def instructions(kind: str, count: int) -> int:
    """How many a process takes."""
    ran = run_counted("callgrind", (), ("bench.trace_instructions", kind, str(count)))
    counted = instructions_by_process(ran)
    if not counted:
        raise SystemExit(f"{kind}, {count} steps: {ran.stderr}")
    return sum(counted.values())


def main() -> None:
    """Count, and print millions of instructions per step."""
    jobs = [(kind, count) for count in (MANY, FEW) for kind in KINDS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counted = dict(zip(jobs, pool.map(lambda job: instructions(*job), jobs), strict=True))
    warm, cold, traced = (
        (counted[kind, MANY] - counted[kind, FEW]) / (MANY - FEW) / 1e6 for kind in KINDS
    )
    print(f"step: {cold:.1f} million instructions, {cold - warm:.1f} of them propagation")
    print(f"trace: {traced - cold:.1f}, {(traced - cold) / (cold - warm):.1%} of propagation")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        steps(sys.argv[1], int(sys.argv[2]))
    else:
        main()
