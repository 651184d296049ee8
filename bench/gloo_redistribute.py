"""Redistributions on real gloo processes: torch's plans and ours, predicted and measured.

    python -m bench.gloo_redistribute --json gloo.json
    python -m bench.gloo_redistribute --from gloo.json --plot docs/img/gloo_predicted_measured.png \
        --write docs/performance.md

For each mesh: its collectives are calibrated, both plans of each redistribution are priced under
that topology, and a sample of those whose prices differ by more than two times is timed, with a
few others for the comparison of prices with times. With flattened meshes and without. Both plans
have to give the same data. They take turns, each after a barrier; a time is the median over the
repetitions on each rank, and of these the most.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.multiprocessing.spawn import spawn

import shardprop
from shardprop import CalibrationSettings, Plan, Topology

from .gloo_cases import SHAPES, Case, check_same, chosen, local_of
from .gloo_report import table, write

MESHES = ((2, 2), (2, 4))
NAMES = ("dp", "tp")
CALIBRATED = CalibrationSettings(
    sizes=(64 << 10, 512 << 10, 2 << 20, 8 << 20), repetitions=7, warmups=2
)


def measure(shape: tuple[int, ...], options: argparse.Namespace) -> dict[str, Any]:
    """What this rank's mesh gives: the same on every rank."""
    flat = init_device_mesh("cpu", shape, mesh_dim_names=NAMES)
    flat._flatten()
    # A root mesh of its own, in which nothing is flattened.
    plain = init_device_mesh("cpu", shape, mesh_dim_names=NAMES)
    calibration = shardprop.calibrate(flat, CALIBRATED)
    topology = calibration.topology
    alone = tuple(group for group in topology.groups if len(group.mesh_dims) == 1)
    of = {"flattened": (flat, topology), "plain": (plain, _with_groups(topology, alone))}
    found: dict[str, Any] = {
        "mesh": "x".join(map(str, shape)),
        "fit": [[one.what, one.mesh_dims, one.fit.median_error] for one in calibration.fitted],
        "pairs": {},
        "measured": [],
    }
    for kind, (mesh, prices) in of.items():
        for mib in options.mib:
            cases, dear = chosen(mesh, prices, mib, options.dear, options.others)
            found["pairs"][f"{kind} {mib}"] = dear
            found["measured"] += [{"kind": kind, **_timed(case, mesh, options)} for case in cases]
    return found


def _with_groups(topology: Topology, groups: tuple[Any, ...]) -> Topology:
    return dataclasses.replace(topology, groups=groups)


def _timed(case: Case, mesh: DeviceMesh, options: argparse.Namespace) -> dict[str, Any]:
    """Prices and times of one case."""
    check_same(case)
    local = local_of(case.torch.src)
    times: dict[str, list[float]] = {"torch": [], "optimal": []}
    for repetition in range(-1, options.repetitions):
        plans = [case.torch, case.optimal]
        for plan in plans if repetition % 2 else reversed(plans):
            us = _us(plan, local)
            if repetition >= 0:
                times[plan.policy].append(us)
    medians = torch.tensor([statistics.median(of_plan) for of_plan in times.values()])
    dist.all_reduce(medians, dist.ReduceOp.MAX)
    return {
        "case": str(case),
        "gain": case.gain,
        "steps": [[step.kind for step in plan.steps] for plan in (case.torch, case.optimal)],
        "predicted_us": [case.torch.cost_us, case.optimal.cost_us],
        "measured_us": medians.tolist(),
    }


def _us(plan: Plan, local: torch.Tensor) -> float:
    """Microseconds of one run on this rank."""
    dist.barrier()
    start = time.perf_counter()
    plan.run(local)
    return (time.perf_counter() - start) * 1e6


def _rank(rank: int, shape: tuple[int, ...], options: argparse.Namespace, folder: str) -> None:
    torch.set_num_threads(1)  # the processes share the cores; more threads would only fight
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # torch's advice to flatten meshes, and that its all-to-all over gloo is made of an all-gather.
    logging.getLogger("torch.distributed.tensor").setLevel(logging.ERROR)
    ranks = shape[0] * shape[1]
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    found = measure(shape, options)
    if rank == 0:
        Path(folder, "found.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All meshes one after the other, in processes of their own."""
    meshes = []
    for shape in MESHES:
        with tempfile.TemporaryDirectory(prefix="shardprop-bench-") as folder:
            spawn(_rank, (shape, options, folder), nprocs=shape[0] * shape[1])
            meshes.append(json.loads(Path(folder, "found.json").read_text()))
    made_on = f"torch {torch.__version__}, {os.cpu_count()} shared cores, {time.strftime('%F')}"
    return {"made_on": made_on, "repetitions": options.repetitions, "meshes": meshes}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, nargs="+", choices=SHAPES, default=[1, 4, 16])
    parser.add_argument("--dear", type=int, default=16, help="pairs with a gain over 2")
    parser.add_argument("--others", type=int, default=6, help="pairs with less")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--from", dest="source", type=Path, help="report on a file of --json")
    parser.add_argument("--json", type=Path, help="write all measurements")
    parser.add_argument("--plot", type=Path, help="write a picture (pip install matplotlib)")
    parser.add_argument("--write", type=Path, help="put the table into a file with markers")
    return parser.parse_args()


def main() -> None:
    options = _options()
    if options.plot is not None:
        from .gloo_plot import plot  # before all else: matplotlib may be missing
    found = json.loads(options.source.read_text()) if options.source else run(options)
    print(table(found))
    if options.json is not None:
        options.json.write_text(json.dumps(found))
    if options.write is not None:
        write(options.write, table(found))
    if options.plot is not None:
        plot(found, options.plot)


if __name__ == "__main__":
    main()
