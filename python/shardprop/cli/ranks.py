"""Meshes of ranks that are not there, and process groups that outlive the program's use of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from .. import _torch
from .._torch import DeviceMesh
from ..errors import ShardpropError

__all__ = ["fake_mesh", "fake_ranks", "keeping_the_group", "mesh_names", "mesh_sizes"]

# More is a typing mistake; the fake backend would still build the mesh.
_MOST_RANKS = 4096
_MOST_DIMS = 8  # of the core


def mesh_sizes(
    text: str, option: str = "--mesh", most_ranks: int | None = _MOST_RANKS
) -> tuple[int, ...]:
    """Sizes from "2x4".

    Raises:
        ShardpropError: it is not of that form, has over 8 dims or too many ranks.
    """
    if not re.fullmatch(r"[1-9][0-9]{0,8}(x[1-9][0-9]{0,8})*", text, flags=re.ASCII):
        raise ShardpropError(f"{option}: Expected sizes such as 2x4, got {text!r}.")
    sizes = tuple(int(size) for size in text.split("x"))
    if len(sizes) > _MOST_DIMS or (most_ranks is not None and math.prod(sizes) > most_ranks):
        limit = "" if most_ranks is None else f" and {most_ranks} ranks"
        raise ShardpropError(f"{option}: Expected at most {_MOST_DIMS} dims{limit}, got {text!r}.")
    return sizes


def mesh_names(text: str | None, dims: int, option: str = "--mesh-dims") -> tuple[str, ...] | None:
    """Names from "dp,tp".

    Raises:
        ShardpropError: not a different name for each mesh dim.
    """
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if len(names) != dims or len(set(names)) != dims or not all(map(str.isidentifier, names)):
        raise ShardpropError(f"{option}: Expected {dims} different names, got {text!r}.")
    return names


@contextmanager
def fake_ranks(count: int) -> Iterator[None]:
    """Let this process be rank 0 of at least `count` for the block; collectives send nothing.

    Raises:
        ShardpropError: there is a process group already, and a real or too small one.
    """
    if dist.is_initialized():
        backend, ranks = dist.get_backend(), dist.get_world_size()
        if backend != "fake" or ranks < count:
            raise ShardpropError(
                f"Expected no process group, or a fake one of at least {count} ranks; got "
                f"{backend!r} of {ranks}."
            )
        yield
        return
    _torch.make_fake_process_group(count)
    try:
        yield
    finally:
        if dist.is_initialized():  # a program may have destroyed it
            dist.destroy_process_group()


def fake_mesh(sizes: tuple[int, ...], names: tuple[str, ...] | None) -> DeviceMesh:
    """A mesh on the fake ranks."""
    return init_device_mesh("cpu", sizes, mesh_dim_names=names)


@contextmanager
def keeping_the_group(*, is_given: bool) -> Iterator[None]:
    """Let the default process group live to the end of the block, though the program destroys it.

    What is reported of a program needs its meshes when the program is over.

    Args:
        is_given: The group was made for the program, and is not the program's to make or to
            destroy.
    """
    init: Any = dist.init_process_group
    destroy: Any = dist.destroy_process_group
    over = False

    def later(group: Any = None) -> None:
        nonlocal over
        if group is None or group is dist.group.WORLD:
            over = True
        else:
            destroy(group)

    def first(*args: Any, **kwargs: Any) -> None:
        nonlocal over
        if is_given:
            return
        if over:
            destroy()
            over = False
        init(*args, **kwargs)

    dist.init_process_group, dist.destroy_process_group = first, later
    try:
        yield
    finally:
        dist.init_process_group, dist.destroy_process_group = init, destroy
        if over and not is_given and dist.is_initialized():
            destroy()
