"""One process in the place of many ranks: fake process groups and LocalTensorMode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import SymInt
from torch.distributed import _local_tensor
from torch.distributed._local_tensor import (
    LocalTensor,
    LocalTensorMode,
    _combine_int_rank_results,
    _map_to_rank_local_val,
    local_tensor_mode,
    maybe_disable_local_tensor_mode,
    maybe_run_for_local_tensor,
)

from .trees import tree_flatten, tree_leaves, tree_unflatten
from .types import OpOverload


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


class RanksRaise(Exception):
    """An op has raised on some ranks, and has not on others, which would go on without them.

    Attributes:
        error: What it raised on the first of them.
        ranks: Where it raised.
    """

    def __init__(self, op: OpOverload, error: Exception, ranks: list[int]) -> None:
        first = str(error).strip().partition("\n")[0]
        where = f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
        super().__init__(f"{where} alone, in {op}: {type(error).__name__}: {first}")
        self.error = error
        self.ranks = ranks


class _AllRanks(LocalTensorMode):  # type: ignore[no-untyped-call]
    """Tells an error that all ranks share from one that leaves some of them waiting, and refuses
    what collectives between processes refuse."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: tuple[Any, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func.namespace in _COLLECTIVES and any(map(_is_conjugated, tree_leaves(args))):
            # Collectives send bits, and would send the wrong ones here without a word.
            raise RuntimeError("view_as_real doesn't work on unresolved conjugated tensors.")
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        except RanksRaise:
            raise
        except Exception as error:
            raising = self._raising(func, (args, kwargs or {}))
            if 0 < len(raising) < len(self.ranks):
                raise RanksRaise(func, error, raising) from error
            raise

    def _raising(self, func: Any, arguments: tuple[Any, Any]) -> list[int]:
        """The ranks on which the op raises, if it is one that each rank runs by itself."""
        leaves, spec = tree_flatten(arguments)
        alone = func.namespace in _COLLECTIVES or not any(
            isinstance(leaf, LocalTensor) for leaf in leaves
        )
        raising = []
        for rank in () if alone else sorted(self.ranks):
            args, kwargs = tree_unflatten([_map_to_rank_local_val(x, rank) for x in leaves], spec)
            try:
                func(*args, **kwargs)
            except Exception:
                raising.append(rank)
        return raising


def _is_conjugated(value: Any) -> bool:
    return isinstance(value, LocalTensor) and any(
        local.is_conj() or local.is_neg() for local in value._local_tensors.values()
    )


_COLLECTIVES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor")


@contextmanager
def all_ranks_at_once(ranks: int) -> Iterator[None]:
    """One process stands in for all ranks, on the CPU, and its collectives are carried out.

    Where an op raises on some ranks and not on others, `RanksRaise` is raised. The random state of
    a GPU is left alone: torch would keep it for each rank, around each op, and start CUDA for that,
    after which no process that is forked can use it.
    """
    of_accelerators = _local_tensor._get_rng_state, _local_tensor._set_rng_state
    _local_tensor._get_rng_state = _rng_state_of_cpu
    _local_tensor._set_rng_state = _set_rng_state_of_cpu
    try:
        with _AllRanks(ranks):
            yield
    finally:
        _local_tensor._get_rng_state, _local_tensor._set_rng_state = of_accelerators


def _rng_state_of_cpu() -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
    return torch.get_rng_state(), {}


def _set_rng_state_of_cpu(
    cpu_state: torch.Tensor, accelerator_states: dict[int, torch.Tensor]
) -> None:
    torch.set_rng_state(cpu_state)


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
