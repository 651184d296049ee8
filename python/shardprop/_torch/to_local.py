"""What ``DTensor.to_local`` hands gradients back by, and what can be done in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.tensor import _api

from .held_functions import HeldFunction
from .types import DTensor, DTensorSpec, Placement

__all__ = ["install_to_local", "source_of", "torch_gradient_of_local", "uninstall_to_local"]

# Makes the gradient of a local tensor a DTensor.
_OfGradient = Callable[[Any, torch.Tensor], DTensor]
_held = HeldFunction(vars(_api._ToTorchTensor)["backward"].__func__)
_installed: list[_OfGradient] = []


def _backward(
    ctx: Any,
    grad_output: torch.Tensor | None,
    installed: list[_OfGradient] = _installed,
    otherwise: Any = _held.torchs,
) -> Any:
    gradient = (*installed, None)[0]  # another thread may take it away meanwhile
    if grad_output is None or gradient is None:
        return otherwise(ctx, grad_output)
    return gradient(ctx, grad_output), None


_stand_in = _held.with_code_of(_backward)


def install_to_local(gradient: _OfGradient) -> None:
    """Have `gradient` called for the backward of torch's autograd function, unless somebody else
    has changed that.

    Args:
        gradient: Called with the context of the function, and the gradient.
    """
    _installed[:] = [gradient]
    _stand_in.install()


def uninstall_to_local() -> None:
    """Undo `install_to_local`."""
    _stand_in.uninstall()
    _installed.clear()


def torch_gradient_of_local(ctx: Any, gradient: torch.Tensor) -> DTensor:
    """What torch makes of the gradient."""
    made: DTensor = _held.torchs(ctx, gradient)[0]
    return made


def source_of(
    ctx: Any,
) -> tuple[DTensorSpec, tuple[Placement, ...] | None, tuple[int, ...] | None]:
    """What the gradient's spec depends on beside the gradient: the spec of the DTensor, the
    placements that were asked for, and on torch 2.15 the strides of the local tensor."""
    return ctx.dtensor_spec, ctx.grad_placements, getattr(ctx, "local_tensor_stride", None)
