"""What ``DTensor.from_local`` makes a tensor by, and what can stand in its place.

The method itself stays: Dynamo knows it by its identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.tensor import _api, _utils

from .compiling import hide_from_dynamo
from .op_outputs import wrapped
from .placements import is_partial
from .specs import make_spec
from .types import DeviceMesh, DTensor, DTensorSpec, Placement, TensorMeta

__all__ = [
    "install_from_local",
    "spec_of_local",
    "torch_from_local",
    "uninstall_from_local",
    "wrapped_local",
]

_TORCHS: Any = _api._FromTorchTensor
_installed: Any = None


def install_from_local(apply: Callable[..., DTensor]) -> None:
    """Have `apply` called where torch calls its autograd function, with the same arguments, unless
    somebody else's stands there."""
    global _installed
    if _api._FromTorchTensor in (_TORCHS, _installed):
        hide_from_dynamo(apply)
        _installed = type(_TORCHS.__name__, (_TORCHS,), {"apply": staticmethod(apply)})
        _api._FromTorchTensor = _installed  # type: ignore[misc]


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


def spec_of_local(
    local: torch.Tensor,
    mesh: DeviceMesh,
    placements: tuple[Placement, ...],
    shape: torch.Size | None,
    stride: tuple[int, ...] | None,
) -> DTensorSpec | None:
    """The spec that torch makes of plain placements; None where it does something else: it refuses
    the call, or this rank is outside of the mesh."""
    reductions = {p.reduce_op for p in placements if is_partial(p)}  # type: ignore[attr-defined]
    if bool(shape) is not bool(stride) or len(reductions) > 1:
        return None
    if not mesh._is_current_rank_part_of_mesh():
        return None
    if not shape or not stride:
        sizes, steps = _utils.compute_global_tensor_info(local, mesh, placements)
        shape, stride = torch.Size(sizes), tuple(steps)
    return make_spec(mesh, placements, TensorMeta(shape, stride, local.dtype))


def wrapped_local(
    local: torch.Tensor, spec: DTensorSpec, gradients: tuple[Placement, ...] | None
) -> DTensor:
    """What torch makes, with a spec that is known; differentiable."""
    has_gradients = torch.is_grad_enabled()
    if local.requires_grad and has_gradients:
        made: DTensor = _FromTorchTensor.apply(local, spec, gradients)  # type: ignore[no-untyped-call]
        return made
    # The view is made as within an autograd function, where gradients are off.
    torch._C._set_grad_enabled(False)
    try:
        view = local.view_as(local)
    finally:
        torch._C._set_grad_enabled(has_gradients)
    made = wrapped(view, spec, requires_grad=local.requires_grad)
    if local.requires_grad:  # an autograd function takes it from what it returns
        made.requires_grad_(False)
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
