"""The adapter's part for fake tensors, on which torch runs ops to learn what comes out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils._mode_utils import no_dispatch

from ._torch import OpSchema, TensorMeta, are_we_tracing, propagator

__all__ = ["FakeTensorMode", "fake_mode", "fake_tensor", "may_be_symbolic", "torch_output_meta"]

_of_this_thread = threading.local()


def may_be_symbolic() -> bool:
    """Is somebody's fake mode around, where sizes may be symbols and tensors have real values?"""
    return are_we_tracing() or detect_fake_mode() is not None


def torch_output_meta(schema: OpSchema) -> Any:
    """The metadata of an op's outputs, computed by torch."""
    return propagator()._propagate_tensor_meta_non_cached(schema)


@contextmanager
def fake_mode() -> Iterator[FakeTensorMode]:
    """A fake mode of our own, one per thread, that keeps no cache of its calls."""
    mode = getattr(_of_this_thread, "fake_mode", None)
    if mode is None:
        mode = _of_this_thread.fake_mode = FakeTensorMode()
        mode.cache_enabled = False
    with type(propagator())._fake_mode_lock, mode:
        yield mode


def fake_tensor(mode: FakeTensorMode, meta: TensorMeta, device: str) -> torch.Tensor:
    """A fake tensor, as `torch.empty_strided` would make it inside the mode."""
    with no_dispatch():
        elem = torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device="meta")
    return FakeTensor(mode, elem, torch.device(device))
