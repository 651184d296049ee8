"""Processes on this machine, one for each rank of a mesh."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.multiprocessing as mp

__all__ = ["run_ranks"]


def run_ranks(function: Callable[..., None], count: int, *args: Any) -> None:
    """Call ``function(rank, init_method, *args)`` on `count` ranks and wait for all of them.

    `init_method` is for the process group. LOCAL_RANK is set.

    Raises:
        Exception: a rank raised; with its traceback.
    """
    # A server that has imported torch once forks a rank sooner than the rank would import it.
    # (Importing initialises nothing there, CUDA least of all.)
    multiprocessing.get_context("forkserver").set_forkserver_preload([function.__module__])
    with tempfile.TemporaryDirectory(prefix="shardprop-ranks-") as folder:
        # A file needs no free port.
        init_method = f"file://{folder}/store"
        # torch documents it but gives it no types and no place in __all__.
        mp.start_processes(  # type: ignore[attr-defined, no-untyped-call]
            _started, (function, init_method, args), nprocs=count, start_method="forkserver"
        )


def _started(
    rank: int, function: Callable[..., None], init_method: str, args: tuple[Any, ...]
) -> None:
    # The processes share the cores of one machine; more threads each would only fight.
    torch.set_num_threads(1)
    # gloo connects over the loopback device, whatever the machine is called.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ["LOCAL_RANK"] = str(rank)
    function(rank, init_method, *args)
