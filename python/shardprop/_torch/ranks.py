"""One process in the place of many ranks: fake process groups and LocalTensorMode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import SymInt
from torch.distributed._local_tensor import (
    LocalTensor,
    LocalTensorMode,
    _combine_int_rank_results,
    local_tensor_mode,
    maybe_disable_local_tensor_mode,
    maybe_run_for_local_tensor,
)


def in_local_tensor_mode() -> bool:
    """Is one process standing in for all ranks (LocalTensorMode)?"""
    return local_tensor_mode() is not None


def int_of_ranks(by_rank: dict[int, int]) -> int | SymInt:
    """In LocalTensorMode an int that each rank has its own of; plain where all have the same."""
    return _combine_int_rank_results(by_rank)


def make_fake_process_group(ranks: int) -> None:
    """Let this process be rank 0 of `ranks`, with collectives that send nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)


def all_ranks_at_once(ranks: int) -> AbstractContextManager[object]:
    """One process stands in for all ranks, and its collectives are carried out."""
    return LocalTensorMode(ranks)


def as_one_tensor(local: Sequence[torch.Tensor]) -> torch.Tensor:
    """The tensors of all ranks as that one process holds them."""
    return LocalTensor(dict(enumerate(local)))  # type: ignore[no-untyped-call]


def tensors_of_ranks(tensor: torch.Tensor, ranks: int) -> list[torch.Tensor]:
    """What the ranks hold; a plain tensor where all have the same."""
    held = getattr(tensor, "_local_tensors", {})
    return [held.get(rank, tensor) for rank in range(ranks)]


def no_local_tensors() -> AbstractContextManager[object]:
    """One process does not stand in for all ranks while a decomposition is followed."""
    return maybe_disable_local_tensor_mode()


def on_each_rank(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, in LocalTensorMode run once for each rank with what that rank has."""
    return maybe_run_for_local_tensor(function)
