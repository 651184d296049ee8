"""What ``DTensor.from_local`` makes a tensor by, and what can stand in its place.

The method itself stays: Dynamo knows it by its identity.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributed.tensor import _api

from .compiling import hide_from_dynamo
from .dtensors import wrapped
from .types import DTensor, DTensorSpec, Placement

__all__ = ["install_from_local", "torch_from_local", "uninstall_from_local", "wrapped_leaf"]

_TORCHS: Any = _api._FromTorchTensor
_installed: object = None


def install_from_local(apply: Callable[..., DTensor]) -> None:
    """Have `apply` called where torch calls its autograd function, with the same arguments, unless
    somebody else's stands there."""
    global _installed
    if _api._FromTorchTensor in (_TORCHS, _installed):
        hide_from_dynamo(apply)
        _installed = SimpleNamespace(apply=apply)
        _api._FromTorchTensor = _installed  # type: ignore[assignment,misc]


def uninstall_from_local() -> None:
    """Undo `install_from_local`."""
    global _installed
    if _api._FromTorchTensor is _installed:
        _api._FromTorchTensor = _TORCHS  # type: ignore[misc]
    _installed = None


def torch_from_local(*given: Any) -> DTensor:
    """What torch makes."""
    made: DTensor = _TORCHS.apply(*given)
    return made


def wrapped_leaf(
    local: torch.Tensor, spec: DTensorSpec, gradients: tuple[Placement, ...] | None
) -> DTensor:
    """What torch makes, with a spec that is known; differentiable."""
    made: DTensor = _FromTorchTensor.apply(local, spec, gradients)  # type: ignore[no-untyped-call]
    return made


class _FromTorchTensor(torch.autograd.Function):  # named as torch's is, for graphs and profiles
    @staticmethod
    def forward(
        ctx: Any,
        local: torch.Tensor,
        spec: DTensorSpec,
        gradients: tuple[Placement, ...] | None,
    ) -> DTensor:
        # What torch's `backward` looks for.
        ctx.forward_input_placements = spec.placements
        ctx.forward_input_device_mesh = spec.mesh
        ctx.grad_placements = gradients
        ctx.set_materialize_grads(False)
        return wrapped(local.view_as(local), spec, requires_grad=local.requires_grad)

    @staticmethod
    def backward(ctx: Any, gradient: DTensor | None) -> tuple[torch.Tensor | None, None, None]:
        return _TORCHS.backward(ctx, gradient)[0], None, None
