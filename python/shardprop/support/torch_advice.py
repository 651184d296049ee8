"""torch's warnings that are no news to who measures or simulates."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_torch_advice"]


@contextmanager
def without_torch_advice() -> Iterator[None]:
    """Keep torch's warnings about meshes that are not flattened out of the block; errors show."""
    logger = logging.getLogger("torch.distributed.tensor")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
