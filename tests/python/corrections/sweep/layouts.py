"""Where the operands of a call lie."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, distribute_tensor

from shardprop import _torch

from ...specs import P, R, S

__all__ = ["LAYOUTS", "Layout", "Placements", "placed", "placements_of"]

Placements = tuple[Placement, ...]
Layout = tuple[tuple[int, ...], Placements, Placements]

# By name: the mesh, what the first operand has on each of its dims, and what the others have.
# A shard of -1 is of the last dim; an operand without the dim is replicated.
LAYOUTS: dict[str, Layout] = {
    "S(0) all": ((3,), (S(0),), (S(0),)),
    "S(1) all": ((3,), (S(1),), (S(1),)),
    "S(0) first": ((3,), (S(0),), (R,)),
    "S(-1) first": ((3,), (S(-1),), (R,)),
    "P first": ((3,), (P,), (R,)),
    "S(0)S(1) all": ((2, 2), (S(0), S(1)), (S(0), S(1))),
    "S(0)S(0) all": ((2, 2), (S(0), S(0)), (S(0), S(0))),
    "S(0)P first": ((2, 2), (S(0), P), (S(0), R)),
}


def placements_of(operands: Sequence[torch.Tensor], layout: Layout) -> tuple[Placements, ...]:
    """The placements of each operand."""
    _, first, others = layout
    return tuple(
        tuple(_placement(each, operand) for each in (others if number else first))
        for number, operand in enumerate(operands)
    )


def _placement(wanted: Placement, operand: torch.Tensor) -> Placement:
    if isinstance(wanted, Partial):
        return R if operand.dtype is torch.bool else wanted
    if not wanted.is_shard():
        return wanted
    dim = wanted.dim  # type: ignore[attr-defined]
    if not -operand.ndim <= dim < operand.ndim:
        return R
    return S(dim % operand.ndim)


def placed(whole: torch.Tensor, mesh: DeviceMesh, placements: Placements) -> torch.Tensor:
    """The tensor as the ranks hold it; of a pending sum each has something else."""
    spread = distribute_tensor(
        whole.detach().clone(), mesh, [R if isinstance(p, Partial) else p for p in placements]
    )
    if not any(isinstance(p, Partial) for p in placements):
        return spread.detach()
    local = _torch.tensors_of_ranks(spread.to_local(), mesh.size())
    with _torch.no_local_tensors():
        for mesh_dim, placement in enumerate(placements):
            if isinstance(placement, Partial):
                local = _parts(local, mesh, mesh_dim)
    simulated = _torch.in_local_tensor_mode()
    return DTensor.from_local(
        _torch.as_one_tensor(local) if simulated else local[dist.get_rank()],
        mesh,
        placements,
        run_check=False,
        shape=spread.shape,
        stride=spread.stride(),
    )


def _parts(local: list[torch.Tensor], mesh: DeviceMesh, mesh_dim: int) -> list[torch.Tensor]:
    """Parts that add up, exactly, to what the first rank along a mesh dim has."""
    parts = []
    for rank, whole in enumerate(local):
        place = int((mesh.mesh == rank).nonzero()[0, mesh_dim])
        drawn = torch.Generator().manual_seed(whole.numel())
        others = [
            torch.randint(-3, 4, whole.shape, generator=drawn).to(whole.dtype)
            for _ in range(mesh.size(mesh_dim) - 1)
        ]
        parts.append(others[place - 1] if place else whole - sum(others))
    return parts
