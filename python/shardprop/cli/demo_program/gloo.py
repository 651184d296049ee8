"""The check against the truth: real processes with gloo against one device without DTensor."""

from __future__ import annotations

import json
import math
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

import shardprop

from ...support.torch_advice import without_torch_advice
from ..local_processes import run_ranks
from .report import Report, stats_rows
from .settings import Settings
from .train import Trainer

TOLERANCE = 1e-9
"""Largest accepted difference, for losses (nats) and for gradients (see `gradient_difference`).

Everything runs in float64, where a sum over one batch in another order moves the last few of 52
bits, about 1e-15. AdamW can amplify that where a gradient is almost zero: by lr / eps = 1e6 at
worst, on numbers that small. 1e-9 leaves room for it; a wrong shard differs by 1e-3 and more.
"""


def run_on_gloo(settings: Settings) -> Report:
    """Train on one process per rank of the mesh and compare with a single device."""
    ranks = settings.ranks
    with (
        Console(stderr=True).status(f"training on {ranks} processes"),
        tempfile.TemporaryDirectory(prefix="shardprop-gloo-") as folder,
    ):
        file = Path(folder) / "report.json"
        run_ranks(_worker, ranks, settings, file)
        found = json.loads(file.read_text())
    loss_gap, gradient_gap = found["loss_difference"], found["gradient_difference"]
    equal = loss_gap <= TOLERANCE and gradient_gap <= TOLERANCE
    losses = ", ".join(f"{loss:.6f}" for loss in found["losses"])
    within = f"tolerance {TOLERANCE:.0e}"
    worst = f"(worst: {found['worst_gradient']})"
    rows = [
        ("losses", f"{losses} nats per token"),
        *stats_rows(found, "on rank 0"),
        ("loss difference", f"{loss_gap:.2e} nats, {within}"),
        ("gradient difference", f"{gradient_gap:.2e} of the largest element, {within} {worst}"),
    ]
    return Report(
        settings,
        f"{ranks} processes, gloo, float64, {found['seconds']:.1f} s",
        rows,
        {**found, "tolerance": TOLERANCE, "equal": equal},
        good=equal,
        verdict=f"Losses and gradients are {'equal' if equal else 'NOT equal'} to the model on a "
        "single device.",
    )


def _worker(rank: int, init_method: str, settings: Settings, file: Path) -> None:
    """One rank: train sharded and alone side by side, agree on the differences, rank 0 reports."""
    start = time.perf_counter()
    dist.init_process_group("gloo", init_method=init_method, rank=rank, world_size=settings.ranks)
    mesh = init_device_mesh("cpu", settings.mesh, mesh_dim_names=settings.names)
    with shardprop.enabled(), without_torch_advice():
        shardprop.reset_stats()
        sharded, alone = (Trainer(settings, on, torch.float64) for on in (mesh, None))
        losses, loss_gap, gradient_gap, worst = _compare_steps(sharded, alone, settings.steps)
        stats = shardprop.stats()
    # Each rank gathered for itself, so each may be wrong for itself: take the worst of them.
    worst_of_ranks = torch.tensor([loss_gap, gradient_gap], dtype=torch.float64)
    dist.all_reduce(worst_of_ranks, op=dist.ReduceOp.MAX)
    dist.destroy_process_group()
    if rank == 0:
        loss_gap, gradient_gap = worst_of_ranks.tolist()
        counted = ("decisions", "delegated", "fallbacks", "strided_operands", "strided_fallbacks")
        found = {
            "losses": losses,  # per step, in nats per token
            "loss_difference": loss_gap,  # the largest, in nats
            "gradient_difference": gradient_gap,  # the largest, see `gradient_difference`
            "worst_gradient": worst,  # the parameter where rank 0 found it
            **{name: getattr(stats, name) for name in counted},
            "seconds": time.perf_counter() - start,  # of rank 0, start of the processes excluded
        }
        file.write_text(json.dumps(found))


def _compare_steps(
    sharded: Trainer, alone: Trainer, steps: int
) -> tuple[list[float], float, float, str]:
    """Step both side by side: losses, largest loss gap, largest gradient gap and its parameter."""
    losses: list[float] = []
    loss_gap = gradient_gap = 0.0
    worst = ""
    for _ in range(steps):
        got, wanted = _full(sharded.step()).item(), alone.step().item()
        losses.append(got)
        loss_gap = max(loss_gap, _no_nan(abs(got - wanted)))
        truth = dict(alone.model.named_parameters())
        for name, parameter in sharded.model.named_parameters():
            gap = gradient_difference(parameter.grad, truth[name].grad)
            if gap >= gradient_gap:
                gradient_gap, worst = gap, name
    return losses, loss_gap, gradient_gap, worst


def gradient_difference(got: Tensor | None, wanted: Tensor | None) -> float:
    """Largest element of |got - wanted| over the largest element of |wanted|; inf if one is absent.

    Relative to the whole gradient and not to each element: an element that is almost zero is a
    difference of large terms and carries their rounding.
    """
    if got is None or wanted is None:
        return 0.0 if got is wanted else math.inf
    scale = wanted.abs().max().item()
    gap = (_full(got) - wanted).abs().max().item()
    return _no_nan(gap / scale if scale else gap)


def _full(tensor: Tensor) -> Tensor:
    """The whole tensor on this rank."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _no_nan(value: float) -> float:
    """NaN as inf, since max() and MAX-reductions may lose a NaN."""
    return math.inf if math.isnan(value) else value
