"""What torch's own code does otherwise while its faults are put right."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from .cache_keys import complete_cache_keys, restore_cache_keys
from .handlers import put_handlers_back, put_handlers_right
from .partition import put_partition_back, put_partition_right
from .types import OpOverload
from .written_views import put_writes_back, put_writes_right

__all__ = ["put_back", "put_right"]


def put_right(
    noted: Callable[[str], AbstractContextManager[object]],
    fault_of: Callable[[OpOverload, tuple[Any, ...]], str | None],
    note: Callable[[str], None],
) -> None:
    """Complete the keys of torch's cache, put what is ours in the place of handlers of torch's
    dispatcher and of the step of its plans that divides integers, and write through views.

    Args:
        noted: Entered around what is done otherwise than by torch, with the fault.
        fault_of: The fault that torch's handling of a call has; None if it has none.
        note: Told of the fault where a plan is carried out otherwise than by torch.
    """
    complete_cache_keys()
    put_handlers_right(noted, fault_of)
    put_partition_right(note)
    put_writes_right(noted)


def put_back() -> None:
    """Undo `put_right`."""
    restore_cache_keys()
    put_handlers_back()
    put_partition_back()
    put_writes_back()
