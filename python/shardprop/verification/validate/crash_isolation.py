"""Work that may crash, in a forked process: the crash is then the work's alone."""

from __future__ import annotations

import os
import pickle
import signal
import time
import warnings
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Lost", "apart"]

T = TypeVar("T")

# What a process may take beyond its deadline: it looks at the time between two runs of an op.
_GRACE = 5.0


class Lost(Exception):
    """The process came to no result; the text says how it ended."""


def apart(work: Callable[[], T], deadline: float | None = None) -> T:
    """What `work` returns, run in a forked process; it has to be picklable.

    The process is ended some seconds after `deadline`, a time as of ``time.monotonic``.

    Raises:
        Lost: the process has crashed, was ended, or `work` has raised.
    """
    source, sink = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns where there are threads, idle or not
        child = os.fork()
    if child == 0:
        os.close(source)
        _work_and_exit(work, sink, deadline)
    os.close(sink)
    with os.fdopen(source, "rb") as pipe:
        held = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        raise Lost(f"the process was ended by {signal.Signals(os.WTERMSIG(status)).name}")
    if os.WEXITSTATUS(status) != 0 or not held:
        raise Lost("the process raised an error")
    result: T = pickle.loads(held)
    return result


def _work_and_exit(work: Callable[[], T], sink: int, deadline: float | None) -> None:
    """Never returns: what the process was about before is the parent's."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if deadline is not None:
            signal.setitimer(signal.ITIMER_REAL, max(deadline - time.monotonic(), 0) + _GRACE)
        with os.fdopen(sink, "wb") as pipe:
            pipe.write(pickle.dumps(work()))
        code = 0
    finally:
        os._exit(code)
