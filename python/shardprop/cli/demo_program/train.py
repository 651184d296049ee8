"""Training steps, and the time DTensor spends deciding shardings while they run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

import shardprop

from ..._torch import OpSchema, OutputSharding
from ...propagation.timing import watch_propagation
from ...support.torch_advice import without_torch_advice
from ..decisions import clear_every_cache
from ..ranks import fake_mesh, fake_ranks
from .llama import Llama
from .placement import WrittenOutAttention, distribute, parallelize
from .progress import Line, step_display
from .report import Report, decider_rows
from .settings import Settings

Observer = Callable[[OpSchema, OutputSharding | Exception], None]
"""Called after each propagation with its question and its answer."""


class Trainer:
    """The model, AdamW and one batch: the same numbers on every mesh for the same settings.

    Without a mesh everything is a plain tensor on a single device.
    """

    def __init__(self, settings: Settings, mesh: DeviceMesh | None, dtype: torch.dtype) -> None:
        self.size = size = settings.model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.model = Llama(size, attention=WrittenOutAttention).to(dtype)
        generator = torch.Generator().manual_seed(settings.seed + 1)
        text = torch.randint(size.vocab, (size.batch, size.seq + 1), generator=generator)
        self.tokens, self.targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
        if mesh is not None:
            parallelize(self.model, mesh)
            self.tokens, self.targets = (
                distribute(part, mesh, dp=0, fsdp=0, sp=1) for part in (self.tokens, self.targets)
            )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2, foreach=True)

    def step(self) -> Tensor:
        """One training step; the loss before the update, in nats per token."""
        self.optimizer.zero_grad()
        logits = self.model(self.tokens)
        loss = F.cross_entropy(logits.view(-1, self.size.vocab), self.targets.view(-1))
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves Tensor.backward untyped
        for parameter in self.model.parameters():
            if isinstance(parameter, DTensor) and isinstance(parameter.grad, DTensor):
                # Gradients arrive as partial sums over the ranks that saw different tokens. Sum
                # them once here: AdamW reads them several times and would sum at each use.
                parameter.grad = parameter.grad.redistribute(placements=parameter.placements)
        self.optimizer.step()
        return loss.detach()


@dataclass(frozen=True)
class StepTime:
    """One training step: seconds in total and in propagation, propagations that missed caches."""

    total: float
    propagation: float
    decisions: int


@dataclass(frozen=True)
class Training:
    """All steps of a run; `losses` are this rank's own numbers (meaningless on a fake group)."""

    steps: list[StepTime]
    losses: list[float]

    @property
    def propagation(self) -> float:
        """Seconds spent in propagation over all steps."""
        return sum(step.propagation for step in self.steps)

    @property
    def decisions(self) -> int:
        """Propagations that no cache answered, over all steps."""
        return sum(step.decisions for step in self.steps)


def train(settings: Settings, line: Line, observe: Observer | None = None) -> Training:
    """Train on the current process group and time each step; the caller chooses who decides."""
    trainer = Trainer(settings, fake_mesh(settings.mesh.sizes, settings.mesh.names), torch.float32)

    def on_propagation(
        schema: OpSchema, result: OutputSharding | Exception, seconds: float
    ) -> None:
        if observe is not None:
            observe(schema, result)
        line.add(seconds)

    run = Training([], [])
    with without_torch_advice(), watch_propagation(on_propagation):
        for _ in range(settings.steps):
            seconds, decisions = line.seconds, line.decisions
            start = time.perf_counter()
            loss = trainer.step()
            total = time.perf_counter() - start
            run.steps.append(StepTime(total, line.seconds - seconds, line.decisions - decisions))
            # This rank's own number, without the redistribution that `.item()` would decide on.
            run.losses.append((loss.to_local() if isinstance(loss, DTensor) else loss).item())
            line.end_step()
    return run


def run_training(settings: Settings) -> Report:
    """The plain demo: where the first step's time went and who decided."""
    with step_display(settings.steps) as line, fake_ranks(settings.mesh.ranks):
        clear_every_cache()
        with shardprop.enabled():
            shardprop.reset_stats()
            training = train(settings, line("shardprop"))
            stats = shardprop.stats()
    first, later = training.steps[0], training.steps[1:]
    mean = sum(step.total for step in later) / max(len(later), 1)
    decisions = sum(step.decisions for step in later)
    losses = ", ".join(f"{loss:.3f}" for loss in training.losses)
    after = [("later steps", f"{mean:.3f} s each, {decisions} new decisions")] if later else []
    rows = [
        ("first step", f"{first.total:.3f} s"),
        ("  in propagation", f"{first.propagation:.3f} s for {first.decisions} decisions"),
        *after,
        ("made by the core", f"{stats.decisions} in all steps"),
        *decider_rows(stats.delegated, stats.fallbacks),
        ("strided operands", f"{stats.strided_operands}, {stats.strided_fallbacks} fell back"),
        ("caches", f"{stats.cache_bytes / 1024:.0f} KiB"),
        ("fake losses", f"{losses}: they mean nothing, since the fake backend moves no data;"),
        ("", "--gloo 4 checks losses and gradients on real processes"),
    ]
    found = {**asdict(training), "stats": asdict(stats)}
    found["fake_losses"] = found.pop("losses")
    how = f"fake backend, this process is rank 0 of {settings.mesh.ranks}"
    return Report(settings, how, rows, found)
