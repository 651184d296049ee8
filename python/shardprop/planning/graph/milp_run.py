"""Running HiGHS such that an interrupt, or an error of who watches, ends it at once.

HiGHS runs in a thread of its own and the caller's thread looks after it: Python handles signals in
its main thread only between its own instructions, so that Ctrl-C would else wait for HiGHS.
"""

from __future__ import annotations

import time
from collections import deque
from threading import Event, Thread
from typing import Any

from .answer import OnProgress

__all__ = ["run_highs"]

_LOOK = 0.1  # seconds between two looks at what HiGHS reports


def run_highs(highs: Any, began: float, progress: OnProgress | None, unit: float) -> None:
    """Run until HiGHS ends; what `progress` raises, or an interrupt, stops it and is raised.

    Args:
        began: Of `time.monotonic()`, for the seconds that are reported.
        unit: What one of the costs given to HiGHS is in costs of the problem.
    """
    reports: deque[tuple[float, int, float, float]] = deque(maxlen=1)
    stop, failures = Event(), list[BaseException]()
    _watch(highs, began, unit, reports, stop)

    def run() -> None:
        try:
            highs.run()
        except BaseException as error:  # raised where the caller sees it
            failures.append(error)

    worker = Thread(target=run, name="highs")
    worker.start()
    try:
        while worker.is_alive():
            worker.join(_LOOK)
            if progress is not None and reports:
                progress(*reports.pop())
    finally:
        stop.set()  # no effect where it has ended
        worker.join()
    if failures:
        raise failures[0]


def _watch(
    highs: Any,
    began: float,
    unit: float,
    reports: deque[tuple[float, int, float, float]],
    stop: Event,
) -> None:
    """These run within HiGHS and must not raise."""

    def on_mip(event: Any) -> None:
        # Not the callback for its log, which is silent where the log is.
        out = event.data_out
        bounds = (float(out.mip_dual_bound) * unit, float(out.mip_primal_bound) * unit)
        reports.append((time.monotonic() - began, int(out.mip_node_count), *bounds))
        on_interrupt(event)

    def on_interrupt(event: Any) -> None:
        if stop.is_set():
            event.data_in.user_interrupt = True

    highs.cbMipInterrupt += on_mip
    highs.cbSimplexInterrupt += on_interrupt
    highs.cbIpmInterrupt += on_interrupt
