"""Real processes on gloo, started once, that call functions of this package's tests."""

from __future__ import annotations

import logging
import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

PROCESSES = 4
SECONDS = 120


class Processes:
    """Processes that are the ranks of one world.

    Args:
        count: How many.
        seconds: After which a rank that does not answer is taken to wait for another.
    """

    def __init__(self, count: int = PROCESSES, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        # A server that has imported torch once forks sooner than each imports it.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["shardprop", "torch._dynamo"])
        self._folder = tempfile.TemporaryDirectory(prefix="shardprop-optimal-")
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        for rank in range(count):
            ours, theirs = context.Pipe()
            store = Path(self._folder.name) / "store"
            process = context.Process(target=_serve, args=(rank, count, store, theirs), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def call(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """What the function returns on each rank.

        Raises:
            AssertionError: a rank raised, or did not answer.
        """
        for pipe in self._pipes:
            pipe.send((function, args))
        answers = []
        for rank, pipe in enumerate(self._pipes):
            if not wait([pipe], timeout=self._seconds):
                raise AssertionError(f"rank {rank} does not answer")
            failed, answer = pipe.recv()
            if failed:
                raise AssertionError(f"rank {rank}: {answer}")
            answers.append(answer)
        return answers

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._folder.cleanup()


def _serve(rank: int, count: int, store: Path, pipe: Connection) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    # torch says of each kind of redistribution once that gloo has no all-to-all.
    logging.getLogger("torch.distributed.tensor").setLevel(logging.ERROR)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=SECONDS),
    )
    while True:
        try:
            function, args = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((False, function(*args)))
        except BaseException:
            pipe.send((True, traceback.format_exc()))
