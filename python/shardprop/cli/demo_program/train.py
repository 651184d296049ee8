"""Training steps, and the time DTensor spends deciding shardings while they run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
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
from .report import Report, stats_rows
from .settings import Settings

__all__ = ["Trainer", "Training", "run_on_fake_ranks", "train"]

_REFRESH_SECONDS = 0.1

# Called after each propagation with its question and its answer.
Observer = Callable[[OpSchema, OutputSharding | Exception], None]


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


@dataclass
class StepTime:
    """One training step: seconds in total and in propagation, propagations that missed caches."""

    total: float = 0.0
    propagation: float = 0.0
    decisions: int = 0


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


def train(settings: Settings, name: str, observe: Observer | None = None) -> Training:
    """Train on the current process group and time each step; the caller chooses who decides.

    `name` is that of the line on stderr that shows how far it is.
    """
    trainer = Trainer(settings, fake_mesh(settings.mesh, settings.names), torch.float32)
    run = Training([], [])

    def on_propagation(
        schema: OpSchema, result: OutputSharding | Exception, seconds: float
    ) -> None:
        if observe is not None:
            observe(schema, result)
        run.steps[-1].decisions += 1
        run.steps[-1].propagation += seconds
        show()

    with (
        _shown(run, name, settings.steps) as show,
        without_torch_advice(),
        watch_propagation(on_propagation),
    ):
        for _ in range(settings.steps):
            run.steps.append(StepTime())
            start = time.perf_counter()
            loss = trainer.step()
            run.steps[-1].total = time.perf_counter() - start
            # This rank's own number, without the redistribution that `.item()` would decide on.
            run.losses.append((loss.to_local() if isinstance(loss, DTensor) else loss).item())
            show(every=0.0)
    return run


@contextmanager
def _shown(run: Training, name: str, steps: int) -> Iterator[Callable[..., None]]:
    """A line on stderr with the steps, decisions and seconds of a run; stdout is for the result.

    It is redrawn when the block calls what it is given, and never by a thread of its own: a thread
    would take the interpreter in the middle of a decision and its time would count as propagation.
    """
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=20),
        TextColumn("step {task.completed}/{task.total}"),
        TextColumn("{task.fields[decisions]} decisions"),
        TextColumn("{task.fields[seconds]:.2f} s in propagation"),
        TimeElapsedColumn(),
    )
    drawn = 0.0
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress:
        task = progress.add_task(name, total=steps, decisions=0, seconds=0.0)

        def draw(every: float = _REFRESH_SECONDS) -> None:
            nonlocal drawn
            if time.monotonic() - drawn >= every:
                drawn = time.monotonic()
                done, decisions, seconds = len(run.losses), run.decisions, run.propagation
                progress.update(task, completed=done, decisions=decisions, seconds=seconds)
                progress.refresh()

        yield draw


def run_on_fake_ranks(settings: Settings) -> Report:
    """The plain demo: where the first step's time went and who decided."""
    with fake_ranks(settings.ranks):
        clear_every_cache()
        with shardprop.enabled():
            shardprop.reset_stats()
            training = train(settings, "shardprop")
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
        *stats_rows(vars(stats), "in all steps"),
        ("caches", f"{stats.cache_bytes / 1024:.0f} KiB"),
        ("fake losses", f"{losses}: they mean nothing, since the fake backend moves no data;"),
        ("", "--gloo 4 checks losses and gradients on real processes"),
    ]
    steps = asdict(training)["steps"]
    found = {"steps": steps, "stats": asdict(stats), "fake_losses": training.losses}
    how = f"fake backend, this process is rank 0 of {settings.ranks}"
    return Report(settings, how, rows, found)
