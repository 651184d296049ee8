"""Meshes, and tensors that are the same on every rank and in every run."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, distribute_tensor

from ..device import DEVICE
from .outcome import Results


@functools.cache
def mesh_of(shape: tuple[int, ...], names: tuple[str, ...] | None = None) -> DeviceMesh:
    """A mesh over the first ranks; made once per process, as it opens groups."""
    return init_device_mesh(DEVICE, shape, mesh_dim_names=names)


def seeded(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers that depend on the shape and the seed only."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(DEVICE)


def tokens(vocab: int, *shape: int, seed: int = 0) -> Tensor:
    """Token ids that depend on the shape and the seed only."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab, shape, generator=generator).to(DEVICE)


def spread(tensor: Tensor, mesh: DeviceMesh, *placements: Placement) -> DTensor:
    """A full tensor, the same on every rank, as a DTensor; no data is sent."""
    return distribute_tensor(tensor, mesh, placements, src_data_rank=None)


def placed(tensor: Tensor, mesh: DeviceMesh, *placements: Placement) -> DTensor:
    """Like `spread`, and with Partial too: there every rank brings the whole tensor as its part."""
    given = [Replicate() if p.is_partial() else p for p in placements]
    local = spread(tensor, mesh, *given).to_local()
    return DTensor.from_local(
        local, mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def gradients(module: nn.Module) -> dict[str, Tensor | None]:
    """Gradients by parameter name, as they are now."""
    return {name: _copy(p.grad) for name, p in module.named_parameters()}


def parameters(module: nn.Module) -> dict[str, Tensor | None]:
    """Parameters by name, as they are now."""
    return {name: _copy(p) for name, p in module.named_parameters()}


def _copy(tensor: Tensor | None) -> Tensor | None:
    """A copy that later steps do not change, made without asking DTensor to clone."""
    if not isinstance(tensor, DTensor):
        return None if tensor is None else tensor.detach().clone()
    local = tensor.to_local().detach().clone()
    return DTensor.from_local(
        local,
        tensor.device_mesh,
        tensor.placements,
        run_check=False,
        shape=tensor.shape,
        stride=tensor.stride(),
    )


STEPS_MORE = 0
"""How many more each training takes than it says; a comparison may change it."""


def prepared(model: nn.Module) -> None:
    """Called with each model before it is run: a comparison may change it here."""


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_of_step: Callable[[int], Tensor],
    *,
    steps: int = 2,
    max_norm: float | None = None,
) -> Results:
    """Train: losses, the gradients of every step, gradient norms, and the parameters at the end."""
    steps += STEPS_MORE
    prepared(model)
    results: dict[str, object] = {}
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of_step(step)
        loss.backward()
        results[f"loss {step}"] = loss.detach()
        results[f"gradients {step}"] = gradients(model)
        if max_norm is not None:
            norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            results[f"norm {step}"] = norm
        optimizer.step()
    return results | {"parameters": parameters(model)}
