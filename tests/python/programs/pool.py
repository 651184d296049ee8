"""Four real processes on gloo, started once, that run one program after another."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar, overload

import torch
import torch.distributed as dist

from .compare import Program, Report
from .compare import compare as exactly

T = TypeVar("T")

PROGRAM_SECONDS = 240
"""A program that takes longer hangs: some rank waits for a collective that others never start."""

_PRELOADED = [
    "shardprop.cli.decisions",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.experimental",
    "torch.distributed.tensor.parallel",
]


@dataclass(frozen=True)
class _Failure:
    """What became of a rank that has no answer."""

    text: str


class Pool:
    """Processes that each compare runs of a program. A failure in one of them restarts all."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @overload
    def run(self, program: Program) -> list[Report]: ...

    @overload
    def run(self, program: Program, compare: Callable[[Program], T]) -> list[T]: ...

    def run(self, program: Program, compare: Callable[[Program], Any] = exactly) -> list[Any]:
        """The report of every rank on the program.

        Args:
            program: Runs on all ranks.
            compare: What is done with it there; by default its runs have to be equal to the bit.

        Raises:
            AssertionError: a rank raised, died or did not answer; with its traceback.
        """
        if not self._processes:
            self._start()
        for pipe in self._pipes:
            pipe.send((compare, program))
        answers = self._collect()
        failed: dict[str, list[int]] = {}
        for rank, answer in enumerate(answers):
            if isinstance(answer, _Failure):
                failed.setdefault(answer.text, []).append(rank)
        if failed:
            # The other ranks may be anywhere in the program: none of them can be used again.
            self.close()
            raise AssertionError("\n".join(f"ranks {r}: {text}" for text, r in failed.items()))
        return answers

    def close(self) -> None:
        """End the processes; the next `run` starts new ones."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._processes, self._pipes = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self) -> None:
        # A server that has imported torch once and forks is up several times sooner than
        # processes that each import it.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)
        self._folder = tempfile.TemporaryDirectory(prefix="shardprop-programs-")
        store = Path(self._folder.name) / "store"
        for rank in range(self._size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, self._size, store, theirs), daemon=True
            )
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)

    def _collect(self) -> list[object]:
        """What each rank answered. One failure leaves the others only a moment to fail as well."""
        answers: list[object] = [_Failure("no answer")] * self._size
        waiting = dict(zip(self._pipes, range(self._size), strict=True))
        deadline = time.monotonic() + PROGRAM_SECONDS
        while waiting and time.monotonic() < deadline:
            for pipe in wait(list(waiting), timeout=deadline - time.monotonic()):
                assert isinstance(pipe, Connection)
                rank = waiting.pop(pipe)
                try:
                    answers[rank] = pipe.recv()
                except EOFError:
                    answers[rank] = _Failure("died")
                if isinstance(answers[rank], _Failure):
                    deadline = min(deadline, time.monotonic() + 3)
        return answers


def _serve(rank: int, size: int, store: Path, pipe: Connection) -> None:
    """One rank: programs in, reports out, until the pool ends it."""
    # The processes share the cores of one machine; more threads each would only fight.
    torch.set_num_threads(1)
    # The file rendezvous needs no free port; gloo still connects over the loopback device.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=PROGRAM_SECONDS),
    )
    while True:
        try:
            compare, program = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(compare(program))
        except BaseException:
            pipe.send(_Failure(traceback.format_exc()))
