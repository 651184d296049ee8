"""Training steps, and the time DTensor spends deciding shardings while they run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from ...propagation.timing import watch_propagation
from .layout import Layout, build_layout
from .model import build_model
from .settings import Settings

Observer = Callable[[object, object, float], None]
"""Called after each propagation with (op schema, OutputSharding or the exception, seconds)."""


class Trainer:
    """The model, AdamW and one batch; the same numbers in every layout for the same settings."""

    def __init__(self, settings: Settings, layout: Layout, dtype: torch.dtype) -> None:
        size = settings.model
        self.model = build_model(size, layout, settings.seed, dtype)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2, foreach=True)
        generator = torch.Generator().manual_seed(settings.seed + 1)
        text = torch.randint(size.vocab, (size.batch, size.seq + 1), generator=generator)
        self.tokens, self.targets = (
            layout.distribute(part.contiguous(), dp=0, fsdp=0, sp=1)
            for part in (text[:, :-1], text[:, 1:])
        )

    def backward(self) -> Tensor:
        """One forward and backward pass: the loss, with gradients laid out like parameters."""
        self.optimizer.zero_grad()
        loss = self.model.loss(self.tokens, self.targets)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves Tensor.backward untyped
        for parameter in self.model.parameters():
            if isinstance(parameter, DTensor) and isinstance(parameter.grad, DTensor):
                # Gradients arrive as partial sums over the ranks that saw different tokens. Sum
                # them once here: AdamW reads them several times and would sum at each use.
                parameter.grad = parameter.grad.redistribute(placements=parameter.placements)
        return loss.detach()

    def step(self) -> Tensor:
        """One training step; the loss before the update, in nats per token."""
        loss = self.backward()
        self.optimizer.step()
        return loss


@dataclass(frozen=True)
class StepTime:
    """One training step: seconds in total and in propagation, propagations that missed caches."""

    total: float
    propagation: float
    decisions: int


@dataclass(frozen=True)
class Training:
    """All steps of a run; `losses` are this rank's own numbers (meaningless on a fake group)."""

    steps: tuple[StepTime, ...]
    losses: tuple[float, ...]

    @property
    def propagation(self) -> float:
        """Seconds spent in propagation over all steps."""
        return sum(step.propagation for step in self.steps)

    @property
    def decisions(self) -> int:
        """Propagations that no cache answered, over all steps."""
        return sum(step.decisions for step in self.steps)


class _Meter:
    """Adds up propagation seconds and counts, and passes every event on."""

    def __init__(self, observe: Observer) -> None:
        self._observe = observe
        self.seconds = 0.0
        self.count = 0

    def __call__(self, schema: object, result: object, seconds: float) -> None:
        self.seconds += seconds
        self.count += 1
        self._observe(schema, result, seconds)


@contextmanager
def fake_ranks(count: int) -> Iterator[None]:
    """Make this process rank 0 of `count` ranks whose collectives move no data."""
    if dist.is_initialized():
        raise RuntimeError("Expected no process group yet, got one that is already initialised.")
    dist.init_process_group("fake", rank=0, world_size=count)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def quiet_torch_advice() -> Iterator[None]:
    """Keep torch's warnings about unflattened meshes out of the display; errors still show."""
    logger = logging.getLogger("torch.distributed.tensor")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def train(settings: Settings, observe: Observer, on_step: Callable[[StepTime], None]) -> Training:
    """Train on the current process group and time each step; the caller chooses who decides."""
    trainer = Trainer(settings, build_layout(settings.mesh), torch.float32)
    meter = _Meter(observe)
    steps: list[StepTime] = []
    losses: list[float] = []
    with quiet_torch_advice(), watch_propagation(meter):
        for _ in range(settings.steps):
            seconds, count = meter.seconds, meter.count
            start = time.perf_counter()
            loss = trainer.step()
            total = time.perf_counter() - start
            steps.append(StepTime(total, meter.seconds - seconds, meter.count - count))
            losses.append(_local(loss))
            on_step(steps[-1])
    return Training(tuple(steps), tuple(losses))


def _local(loss: Tensor) -> float:
    """This rank's own number, without the redistribution that `.item()` would decide on."""
    return (loss.to_local() if isinstance(loss, DTensor) else loss).item()
