"""Work on many ops in processes of their own: a crash or a hang costs one op, not the run."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from pebble import ProcessExpired, ProcessPool

from ..errors import ShardpropError
from .report import Report

__all__ = ["run_all"]

# What a worker makes of an op.
Made = TypeVar("Made", bound=Report)
Work = Callable[[str], Made]

# Ops after which a worker makes room for another: what it has cached goes with it.
_OPS_PER_WORKER = 24

# How often an op is tried again whose worker was lost for no fault of the op.
_RETRIES = 2


def run_all(
    work: Work[Made],
    ops: Sequence[str],
    failed: Callable[..., Made],
    jobs: int | None = None,
    time_limit: float = 60.0,
) -> Iterator[Made]:
    """A report of each op, in the order in which they are done.

    Workers are forked: they begin with all that this process has imported, recorded and registered,
    and another takes the place of a lost one at once. That needs `work` to be a function that this
    process never runs beside them.

    Args:
        work: Called with an op's name in a worker.
        ops: The names.
        failed: Makes a report of an op's name and its `error`, where `work` made none.
        jobs: Processes at a time, as many as there are processors unless given.
        time_limit: Seconds for one op, after which its worker is killed.

    Yields:
        What `work` returned; where it did not, a report whose `error` says why.
    """
    jobs = min(jobs or os.cpu_count() or 1, len(ops))
    left = list(ops)
    for _ in range(_RETRIES + 1):
        lost: list[str] = []
        if left:
            yield from _run_once(work, left, failed, jobs, time_limit, lost)
        left = lost
    for op in left:
        yield failed(op, error="its worker was lost")


def _run_once(
    work: Work[Made],
    ops: Sequence[str],
    failed: Callable[..., Made],
    jobs: int,
    time_limit: float,
    lost: list[str],
) -> Iterator[Made]:
    torch.set_num_threads(1)  # a fork takes over no threads, and a pool of them would be missed
    # Autograd starts a thread for each kind of device when it is first used. In a fork of a fork
    # of a build for CUDA one of them now and then aborts; a process that has them starts no more.
    torch.ones((), requires_grad=True).backward()  # type: ignore[no-untyped-call]
    pool = ProcessPool(
        jobs,
        _OPS_PER_WORKER,
        initializer=_begin,
        initargs=(work,),
        context=multiprocessing.get_context("fork"),
    )
    with _no_warning_of_forks():
        try:
            futures: dict[Future[Made], str] = {
                pool.schedule(_work, (op,), timeout=time_limit): op for op in ops
            }
            for future in as_completed(futures):
                report = _report_of(future, futures[future], failed, time_limit)
                if report is None:
                    lost.append(futures[future])
                else:
                    yield report
            pool.close()  # type: ignore[no-untyped-call]
        except BaseException:  # Ctrl-C, or the consumer had enough
            pool.stop()  # type: ignore[no-untyped-call]
            raise
        finally:
            pool.join()


def _report_of(
    future: Future[Made], op: str, failed: Callable[..., Made], time_limit: float
) -> Made | None:
    """The report of one op; None where the pool broke down for another reason."""
    try:
        return future.result()
    except FutureTimeoutError:
        return failed(op, error=f"not done within {time_limit:g} s", seconds=time_limit)
    except ProcessExpired as expired:
        return failed(op, error=f"crashed: {_cause(expired.exitcode)}")
    except BrokenProcessPool:
        return None
    except ShardpropError as error:  # says what is wrong with what the user gave
        return failed(op, error=str(error))
    except (Exception, SystemExit) as error:  # an op or a rule may call sys.exit
        return failed(op, error=f"{type(error).__name__}: {error}")


def _cause(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"exit code {exit_code}"
    name = signal.strsignal(-exit_code)
    return f"signal {-exit_code}" + (f" ({name})" if name else "")


@contextmanager
def _no_warning_of_forks() -> Iterator[None]:
    """Python 3.12 warns of a fork beside threads; those of the pool hold no lock of torch."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
        yield


# --- in the workers ---------------------------------------------------------------------------

# What the worker was forked to do.
_given: list[Work[Any]] = []


def _begin(work: Work[Any]) -> None:
    """What a worker does first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that was interrupted ends the pool
    torch.set_num_threads(1)
    if faulthandler.is_enabled():  # a crash is reported in a line
        faulthandler.disable()
    # What a user's rule prints is no part of the report. Kernels warn on stderr of how they are
    # called, thousands of times.
    for stream in filter(None, (sys.stdout, sys.stderr)):  # either may be closed
        stream.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(2 if sys.stderr is not None else nowhere, 1)
    os.dup2(nowhere, 2)
    if nowhere > 2:
        os.close(nowhere)
    _given[:] = [work]


def _work(op: str) -> Any:
    return _given[0](op)
