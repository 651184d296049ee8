"""Integers and flags that become a pending sum: torch divides them, which makes floats of them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .compiling import are_we_tracing, hide_from_dynamo, plans_for_any_rank
from .mesh import coordinate_on
from .ranks import on_each_rank
from .types import DeviceMesh, Partial, Placement

__all__ = ["INTEGERS_MADE_PENDING", "partition", "put_partition_back", "put_partition_right"]

# What the fault is called.
INTEGERS_MADE_PENDING = "integers that become a pending sum"

_torchs: Callable[..., torch.Tensor] = Partial._partition_value


def _not_noted(fault: str) -> None:
    pass


_note: Callable[[str], None] = _not_noted


def partition(dst: Placement, local: torch.Tensor, mesh: DeviceMesh, mesh_dim: int) -> torch.Tensor:
    """Replicate to a Partial. Of a sum torch gives each rank as much; of integers all stay with the
    first rank."""
    if _is_kept(dst, local):
        kept: torch.Tensor = _kept_by_the_first(local, coordinate_on(mesh, mesh_dim))
        return kept
    return dst._partition_value(local, mesh, mesh_dim)  # type: ignore[attr-defined,no-any-return]


def _is_kept(dst: Placement, local: torch.Tensor) -> bool:
    is_exact = not (local.is_floating_point() or local.is_complex())
    return is_exact and type(dst) is Partial and dst.reduce_op == "sum"


@on_each_rank
def _kept_by_the_first(local: torch.Tensor, coordinate: int) -> torch.Tensor:
    return local.clone() if coordinate == 0 else torch.zeros_like(local)


def _ours(self: Partial, tensor: torch.Tensor, mesh: DeviceMesh, mesh_dim: int) -> torch.Tensor:
    if not _is_kept(self, tensor) or plans_for_any_rank():
        return _torchs(self, tensor, mesh, mesh_dim)
    if not are_we_tracing():
        _note(INTEGERS_MADE_PENDING)
    return partition(self, tensor, mesh, mesh_dim)


def put_partition_right(note: Callable[[str], None]) -> None:
    """Have torch's redistributions do so, too; `note` is told of each."""
    global _note
    _note = note
    hide_from_dynamo(_ours)
    if Partial._partition_value is _torchs:
        Partial._partition_value = _ours  # type: ignore[method-assign]


def put_partition_back() -> None:
    """Undo `put_partition_right`."""
    if Partial._partition_value is _ours:
        Partial._partition_value = _torchs  # type: ignore[method-assign]
