"""torch's caches of decisions, forgotten for every thread at once.

The one in torch's C++ dispatcher is per thread, and only a thread itself can clear its own. So a
generation is counted, and each thread looks at it before its next op.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Set
from types import CodeType, FrameType
from typing import Any

import torch

from .. import _core
from .compiling import hide_from_dynamo
from .dispatch import ASKING_CODES, MOVING_CODE
from .propagation import forget_in_python, propagator
from .types import DTensor

# Functions of torch that run while its C++ dispatcher holds a pointer to this thread's cache of
# decisions, to put one in when it is made.
_DISPATCHER = type(DTensor._op_dispatcher)
_HOLDING_CODES = frozenset(
    (
        _DISPATCHER.unwrap_to_op_info.__code__,
        _DISPATCHER._propagate_op_sharding_dispatch_slow_path.__code__,
    )
)
_OP_CODES = _HOLDING_CODES | ASKING_CODES | {MOVING_CODE}


def _clear_thread() -> bool:
    """Clear torch's C++ cache of decisions of this thread: only a thread itself can. False where
    torch holds on to it: a decision is under way, and asked about another op."""
    if _is_running(_HOLDING_CODES):
        return False
    _before_clearing()
    torch._C._clear_DTensor_sharding_propagator_cache()
    return True


def is_in_op() -> bool:
    """Is this thread deciding an op of torch's dispatcher, or moving operands for one?"""
    return _is_running(_OP_CODES)


def _is_running(codes: Set[CodeType]) -> bool:
    """Is one of these functions on this thread's stack?"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False


hide_from_dynamo(_clear_thread)
_before_clearing: Callable[[], None] = lambda: None  # noqa: E731

# torch's dispatcher reads this attribute once at the start of each DTensor op, in the thread that
# runs it and before it looks into that thread's cache.
_READ_BY_EACH_OP = "_custom_op_handlers"
_generation_slot: Any = _core.GenerationSlot(_READ_BY_EACH_OP, _clear_thread)
_forgetting = threading.RLock()
_times_forgotten = 0


def before_clearing(notify: Callable[[], None]) -> None:
    """Call `notify` in each thread that is about to clear its decisions, before its next op."""
    global _before_clearing
    hide_from_dynamo(notify)
    _before_clearing = notify


def forget_own_decisions() -> None:
    """Clear torch's caches of decisions for this thread alone."""
    propagator().propagate_op_sharding.cache_clear()
    if not _is_running(_HOLDING_CODES):
        torch._C._clear_DTensor_sharding_propagator_cache()


def forget_decisions() -> None:
    """Clear torch's caches of decisions, in Python and in its C++ dispatcher, for every thread.

    Another thread clears its own before its next op; so does this one where torch holds on to its
    cache.
    """
    global _times_forgotten
    with _forgetting:
        _times_forgotten += 1
        # Never taken away again: threads may be behind that do not run an op for a long time. While
        # none is, that costs an op 113 instructions of 62,000.
        if _READ_BY_EACH_OP not in vars(_DISPATCHER):
            setattr(_DISPATCHER, _READ_BY_EACH_OP, _generation_slot)
        forget_in_python()
        _core.begin_generation()
    _generation_slot.catch_up()


def times_forgotten() -> int:
    """How often all decisions were forgotten: what was known of them before holds no more."""
    return _times_forgotten
