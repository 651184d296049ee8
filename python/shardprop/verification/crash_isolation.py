"""Work that may crash, in a forked process: the crash is then the work's alone."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

__all__ = ["Lost", "apart", "last_apart"]

T = TypeVar("T")

# What a process may take beyond its deadline: it looks at the time between two runs of an op.
_GRACE = 5.0


class Lost(Exception):
    """The process came to no result; the text says how it ended."""


def apart(work: Callable[[], T], deadline: float = math.inf) -> T:
    """What `work` returns, run in a forked process; it has to be picklable.

    The process is ended some seconds after `deadline`, a time as of ``time.monotonic``.

    Raises:
        Lost: the process has crashed, was ended, or `work` has raised.
    """
    found, how = _run(lambda: iter([work()]), deadline)
    if how is not None:
        raise Lost(how)
    return found[0]


def last_apart(steps: Callable[[], Iterator[T]], deadline: float = math.inf) -> T | None:
    """The last of `steps`, taken in a forked process: as far as it came, if it came to anything."""
    found, _ = _run(steps, deadline)
    return found[-1] if found else None


def _run(steps: Callable[[], Iterator[T]], deadline: float) -> tuple[list[T], str | None]:
    """What the steps made in a forked process, and how that ended if not well."""
    source, sink = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns where there are threads, idle or not
        child = os.fork()
    if child == 0:
        os.close(source)
        _work_and_exit(steps, sink, deadline)
    os.close(sink)
    found: list[T] = []
    with os.fdopen(source, "rb") as pipe, contextlib.suppress(EOFError, pickle.UnpicklingError):
        while True:
            found.append(pickle.load(pipe))
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return found, f"the process was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    if os.WEXITSTATUS(status) != 0 or not found:
        return found, "the process raised an error"
    return found, None


def _work_and_exit(steps: Callable[[], Iterator[T]], sink: int, deadline: float) -> None:
    """Never returns: what the process was about before is the parent's."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if deadline < math.inf:
            signal.setitimer(signal.ITIMER_REAL, max(deadline - time.monotonic(), 0) + _GRACE)
        with os.fdopen(sink, "wb") as pipe:
            for step in steps():
                pipe.write(pickle.dumps(step))
                pipe.flush()
        code = 0
    finally:
        os._exit(code)
