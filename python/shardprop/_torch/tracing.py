"""What a trace reads from torch, and where it notes what it saw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._logging import _internal as _torch_logging
from torch.utils._debug_mode import get_active_debug_mode

# Of autograd, in this thread: the number of the node that is made next, and the node whose backward
# runs (None outside a backward).
next_autograd_number: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
autograd_node: Callable[[], Any] = torch._C._current_autograd_node


def autograd_number(node: Any) -> int:
    """The number of a node of autograd's graph: that of its forward, for a node of a backward."""
    number: int = node._sequence_nr()
    return number


def records_structured_trace() -> bool:
    """Does torch write a structured trace (``TORCH_TRACE``)?

    Its handler is there in any case, with a folder only where one was named.
    """
    return any(
        isinstance(handler, _torch_logging.LazyTraceHandler)
        and (handler.root_dir is not None or handler.stream is not None)
        for handler in _torch_logging.trace_log.handlers
    )


def record_artifact(name: str, payload: Callable[[], object]) -> None:
    """Put a JSON document into torch's structured trace."""
    _torch_logging.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "json"},
        payload_fn=payload,
        expect_trace_id=False,
    )


def annotate_debug_mode(text: Callable[[], str]) -> None:
    """A line among the calls that DebugMode, where it is on, has noted."""
    mode = get_active_debug_mode()
    if mode is not None:
        mode._handle_annotate(text())  # type: ignore[no-untyped-call]
