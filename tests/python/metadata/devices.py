"""Whether a kernel looked at the device that a fake tensor stands for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch._meta_registrations as meta_registrations

__all__ = ["device_looked_at"]


@contextlib.contextmanager
def device_looked_at() -> Iterator[list[str]]:
    """Notes the calls of `device_hint`, through which torch's Python meta kernels ask.

    Of a meta tensor it says "cuda", so that an answer may be right for a CUDA mesh only.
    """
    asked: list[str] = []
    original = meta_registrations.device_hint

    def noting(tensor: Any) -> str:
        asked.append("device_hint")
        return original(tensor)

    with mock.patch.object(meta_registrations, "device_hint", noting):
        yield asked
