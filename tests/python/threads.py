"""Many threads at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["at_once", "switching_often"]


@contextmanager
def switching_often() -> Iterator[None]:
    """Threads take turns every 10 us instead of 5 ms, so that they meet inside a decision."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def at_once(work: Callable[[int], None], count: int) -> None:
    """`work(i)` for each i below `count`, each on a thread, all starting together."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def start(index: int) -> None:
        barrier.wait()
        try:
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
