"""A folder that all ranks write into."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist

__all__ = ["shared_folder"]


@contextmanager
def shared_folder() -> Iterator[str]:
    """One folder for all ranks, until all are through with it."""
    folder = tempfile.TemporaryDirectory()
    names = [folder.name]
    dist.broadcast_object_list(names)
    try:
        yield names[0]
        dist.barrier()
    finally:
        folder.cleanup()
