"""Small helpers for starting processes and for ending with them."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """An environment variable for the processes started inside."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def end_with_parent() -> None:
    """Ends this process once its parent is gone.

    A worker waits for work for ever, even if the process that would send it was killed.
    """
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
