"""The situations in which torch may be asked: eager or tracing, and what a program may set."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

__all__ = ["CONTEXTS", "EVERYWHERE", "Context"]


@dataclass(frozen=True)
class Context:
    """A situation.

    Attributes:
        name: To be shown.
        device: Of the mesh.
        entered: What is around the call.
    """

    name: str
    device: str
    entered: Callable[[], AbstractContextManager[object]]


@contextlib.contextmanager
def _below_autograd() -> Iterator[None]:
    """Where DTensor asks: composite ops have come apart, save in inference mode."""
    with torch._C._AutoDispatchBelowAutograd():
        yield


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    """What is around DTensor's ops while a program is traced."""
    with FakeTensorMode(shape_env=ShapeEnv()), enable_python_dispatcher(), _below_autograd():
        yield


@contextlib.contextmanager
def _autocast(device: str) -> Iterator[None]:
    """As `torch.autocast`, which refuses a device that is not there."""
    before = torch.is_autocast_enabled(device)
    torch.set_autocast_enabled(device, True)
    try:
        with _below_autograd():
            yield
    finally:
        torch.set_autocast_enabled(device, before)
        torch.clear_autocast_cache()


@contextlib.contextmanager
def _default_dtype() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _below_autograd():
            yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    FakeTensorMode.cache_clear()  # torch's key does not hold this setting: it would not refuse
    torch.use_deterministic_algorithms(True)
    try:
        with _below_autograd():
            yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def _inference() -> Iterator[None]:
    with torch.inference_mode(), _below_autograd():
        yield


@contextlib.contextmanager
def _default_device() -> Iterator[None]:
    with torch.device("cuda"), _below_autograd():
        yield


# Where an op is admitted only if it was compared there.
EVERYWHERE = (
    Context("eager, cpu", "cpu", _below_autograd),
    Context("eager, cuda", "cuda", _below_autograd),
    Context("tracing, cpu", "cpu", _tracing),
)

CONTEXTS = (
    *EVERYWHERE,
    Context("tracing, cuda", "cuda", _tracing),
    Context("above autograd, cpu", "cpu", contextlib.nullcontext),
    Context("autocast, cpu", "cpu", lambda: _autocast("cpu")),
    Context("autocast, cuda", "cuda", lambda: _autocast("cuda")),
    Context("default dtype float64, cpu", "cpu", _default_dtype),
    Context("deterministic, cpu", "cpu", _deterministic),
    Context("deterministic, cuda", "cuda", _deterministic),
    Context("inference mode, cpu", "cpu", _inference),
    Context("default device cuda, cpu", "cpu", _default_device),
)
