"""Reports each propagation that no cache answered, and how long it took."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from .. import _torch
from .._torch import OpSchema, OutputSharding

__all__ = ["watch_propagation"]

_Propagate = Callable[[OpSchema], OutputSharding]


@contextmanager
def watch_propagation(
    callback: Callable[[OpSchema, OutputSharding | Exception, float], None],
) -> Iterator[None]:
    """Call `callback(schema, answer, seconds)` after each propagation that no cache answered.

    What decides is measured, torch or what `install` put in its place, so enter it after `install`
    and leave it before `uninstall`. The answer is the OutputSharding, or the exception that
    propagation raised. Propagations inside another one (torch tracing a decomposition) are
    part of the outer one and not reported. The time spent in the callback is not counted.
    """
    inside = threading.local()

    def around(inner: _Propagate) -> _Propagate:
        def watched(schema: OpSchema) -> OutputSharding:
            if getattr(inside, "yes", False):
                return inner(schema)
            inside.yes = True
            answer: OutputSharding | Exception
            start = perf_counter()
            try:
                answer = inner(schema)
            except Exception as error:
                answer = error
            finally:
                seconds = perf_counter() - start
                inside.yes = False
            callback(schema, answer, seconds)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return watched

    with _torch.watched_propagation(around):
        yield
