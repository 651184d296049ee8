"""The check against the truth: real processes with gloo against one device without DTensor."""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from rich.console import Console
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

import shardprop

from ...support.console import labelled
from ...support.torch_advice import without_torch_advice
from .settings import Settings
from .train import LABEL_WIDTH, Trainer, decider_rows

TOLERANCE = 1e-9
"""Largest accepted difference, for losses (nats) and for gradients (relative, see `GlooReport`).

Everything runs in float64, where a sum over one batch in another order moves the last few of 52
bits, about 1e-15. AdamW can amplify that where a gradient is almost zero: by lr / eps = 1e6 at
worst, on numbers that small. 1e-9 leaves room for it; a wrong shard differs by 1e-3 and more.
"""


@dataclass(frozen=True)
class GlooReport:
    """The largest differences over all steps and ranks, and what shardprop did on rank 0."""

    losses: list[float]
    """Loss per step in nats per token, as the processes computed it."""
    loss_difference: float
    """Largest absolute difference of a loss, in nats."""
    gradient_difference: float
    """Largest difference of a gradient element over the largest element of that gradient."""
    worst_gradient: str
    """The parameter where that difference was found on rank 0."""
    decisions: int
    delegated: dict[str, int]
    fallbacks: dict[str, int]
    strided_operands: int
    strided_fallbacks: int
    seconds: float
    """Wall time of rank 0, start of the processes excluded."""
    settings: Settings

    @property
    def good(self) -> bool:
        """Whether losses and gradients agree within the tolerance (a NaN does not)."""
        return self.loss_difference <= TOLERANCE and self.gradient_difference <= TOLERANCE

    def lines(self) -> Iterator[str]:
        """For people."""
        ranks = self.settings.mesh.ranks
        yield f"{self.settings.headline}; {ranks} processes, gloo, float64, {self.seconds:.1f} s"
        losses = ", ".join(f"{loss:.6f}" for loss in self.losses)
        within = f"tolerance {TOLERANCE:.0e}"
        rows = [
            ("losses", f"{losses} nats per token"),
            ("made by the core", f"{self.decisions} on rank 0"),
            *decider_rows(self.delegated, self.fallbacks),
            ("strided operands", f"{self.strided_operands}, {self.strided_fallbacks} fell back"),
            ("loss difference", f"{self.loss_difference:.2e} nats, {within}"),
            (
                "gradient difference",
                f"{self.gradient_difference:.2e} of the largest element, {within} "
                f"(worst: {self.worst_gradient})",
            ),
        ]
        yield from labelled(rows, LABEL_WIDTH)
        verdict = "equal" if self.good else "NOT equal"
        yield f"Losses and gradients are {verdict} to the model on a single device."

    def values(self) -> dict[str, object]:
        """For --json; differences as said above."""
        found = {name: value for name, value in vars(self).items() if name != "settings"}
        return {**self.settings.values(), **found, "tolerance": TOLERANCE, "equal": self.good}


def run_gloo(settings: Settings) -> GlooReport:
    """Train on one process per rank of the mesh and compare with a single device."""
    ranks = settings.mesh.ranks
    with (
        Console(stderr=True).status(f"training on {ranks} processes"),
        tempfile.TemporaryDirectory(prefix="shardprop-gloo-") as folder,
    ):
        # torch documents spawn but gives it neither types nor a place in __all__.
        mp.spawn(  # type: ignore[attr-defined, no-untyped-call]
            _worker, (settings, folder), nprocs=ranks
        )
        found = json.loads((Path(folder) / "report.json").read_text())
    return GlooReport(**found, settings=settings)


def _worker(rank: int, settings: Settings, folder: str) -> None:
    """One rank: train sharded and alone side by side, agree on the differences, rank 0 reports."""
    start = time.perf_counter()
    # The processes share the cores of one machine; more threads each would only fight.
    torch.set_num_threads(1)
    # The file rendezvous needs no free port; gloo still connects over the loopback device.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=settings.mesh.ranks
    )
    mesh = init_device_mesh("cpu", settings.mesh.sizes, mesh_dim_names=settings.mesh.names)
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
            "losses": losses,
            "loss_difference": loss_gap,
            "gradient_difference": gradient_gap,
            "worst_gradient": worst,
            **{name: getattr(stats, name) for name in counted},
            "seconds": time.perf_counter() - start,
        }
        (Path(folder) / "report.json").write_text(json.dumps(found))


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
