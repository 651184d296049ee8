"""Training steps under policy optimal, beside torch's decisions: modelled, and measured.

    python -m bench.optimal_steps [--mesh 4] [--topology cpu-gloo] [MODEL ...]
    torchrun --nproc-per-node 4 -m bench.optimal_steps [--topology calibrated.json] [MODEL ...]

The models are those of `step_models`, laid out as a program would first write them. Without
processes: what the redistributions of a step cost under the topology, and how many collectives they
have. With processes: the median time of a step, the best of five turns, each way taking turns with
the others.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import shardprop

from .step_models import MODELS, training_step

# Steps before those that are timed, steps that are timed, turns.
_BEFORE, _TIMED, _TURNS = 2, 5, 5

Step = Callable[[], Any]
Settings = dict[str, Any]  # of `enable`


def ways(topology: str, step: Step) -> dict[str, Settings]:
    """What is compared: settings of `enable` by name, torch's decisions first."""
    with shardprop.enabled(), shardprop.watch_consumers() as consumers:
        step()
    optimal: Settings = {"policy": "optimal", "topology": topology}
    return {
        "torch": {},
        "optimal, torch's rows": {**optimal, "rules": "torch"},
        "optimal": optimal,
        "weighed": {**optimal, "output_weight": 1.0},
        "ahead, torch's rows": {**optimal, "rules": "torch", "consumers": consumers},
        "ahead": {**optimal, "consumers": consumers},
    }


def modelled(topology: str, step: Step, settings: Settings) -> str:
    """What the redistributions of a step cost, and how many collectives they have."""
    with shardprop.enabled(**settings):
        step()
        with shardprop.trace(topology=topology) as trace:
            step()
    plans = [each.plan for each in trace.redistributions if each.plan is not None]
    unpriced = len(trace.redistributions) - len(plans)
    text = f"{sum(p.cost_us for p in plans):,.0f} us, {sum(p.collectives for p in plans)}"
    return f"{text} (and {unpriced} without a price)" if unpriced else text


def measured(step: Step, all_settings: dict[str, Settings]) -> tuple[dict[str, float], float]:
    """Milliseconds of a step by name; and by how much a loss differs at most, relatively."""
    times: dict[str, list[float]] = {name: [] for name in all_settings}
    losses = []
    for _ in range(_TURNS):
        for name, settings in all_settings.items():
            with shardprop.enabled(**settings):
                for _ in range(_BEFORE):
                    loss = step()
                times[name].append(statistics.median(_seconds(step) for _ in range(_TIMED)))
            losses.append(float(loss.detach().full_tensor()))
    apart = max(abs(loss - losses[0]) for loss in losses) / abs(losses[0])
    return {name: 1e3 * min(taken) for name, taken in times.items()}, apart


def _seconds(step: Step) -> float:
    dist.barrier()
    start = time.perf_counter()
    step()
    dist.barrier()
    return time.perf_counter() - start


def _row(cells: list[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.optimal_steps", description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--mesh", default="4", help="sizes of the mesh dims, such as 2x2")
    parser.add_argument("--topology", default="cpu-gloo")
    asked = parser.parse_args()
    sizes = tuple(int(size) for size in asked.mesh.split("x"))
    runs = "WORLD_SIZE" in os.environ
    torch.set_num_threads(1)
    if runs:
        dist.init_process_group("gloo")
    else:
        world = int(torch.tensor(sizes).prod())
        dist.init_process_group("fake", rank=0, world_size=world)
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=tuple(f"d{i}" for i in range(len(sizes))))
    for number, name in enumerate(asked.models):
        step = training_step(name, mesh)
        compared = ways(asked.topology, step)
        if number == 0 and dist.get_rank() == 0:
            _row([f"{asked.mesh}, {asked.topology}", *compared])
            _row(["---"] * (1 + len(compared)))
        if runs:
            times, apart = measured(step, compared)
            cells = [
                f"{ms:.1f} ms ({times['torch'] / ms:.2f}x)" if way != "torch" else f"{ms:.1f} ms"
                for way, ms in times.items()
            ]
            name += f" (losses {apart:.0e} apart)"
        else:
            cells = [modelled(asked.topology, step, each) for each in compared.values()]
        if dist.get_rank() == 0:
            _row([name, *cells])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
