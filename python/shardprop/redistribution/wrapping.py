"""What ranks hold made a DTensor, with a spec that was made for one like it."""

from __future__ import annotations

from typing import Any

import torch

from .. import _torch
from .._torch import DeviceMesh, DTensor, DTensorSpec, Placement
from ..support.cache import BoundedMap

__all__ = ["Wrapper"]

_SPECS_HELD = 4096
# Sizes of another class would compare equal, and stay in the spec.
_SHAPES, _STRIDES = (torch.Size, type(None)), (tuple, type(None))
_PLACEMENTS = (tuple, type(None))


class Wrapper:
    """Stands in for what ``DTensor.from_local`` makes tensors by, and ``to_local`` gradients."""

    def __init__(self) -> None:
        # A spec holds its mesh, whose number in the key is no other's meanwhile.
        self._specs: BoundedMap[DTensorSpec] = BoundedMap("specs of local tensors", _SPECS_HELD)
        self._of_gradients: BoundedMap[DTensorSpec] = BoundedMap("specs of gradients", _SPECS_HELD)

    def clear(self) -> None:
        """Forget all specs."""
        self._specs.clear()
        self._of_gradients.clear()

    def from_local(
        self,
        local: torch.Tensor,
        mesh: DeviceMesh,
        placements: tuple[Placement, ...],
        run_check: bool,
        shape: torch.Size | None,
        stride: tuple[int, ...] | None,
        gradients: tuple[Placement, ...] | None,
    ) -> DTensor:
        """See torch. What is checked on all ranks, and what somebody looks at, is torch's."""
        given = local, mesh, placements, run_check, shape, stride, gradients
        if (
            run_check
            or not _torch.is_own(local)
            or not _torch.are_plain(placements)
            or type(shape) not in _SHAPES
            or type(stride) not in _STRIDES
            or not _torch.nobody_watches()
        ):
            return _torch.torch_from_local(*given)
        key = id(mesh), placements, local.shape, local.stride(), local.dtype, shape, stride
        spec = self._specs.get(key)
        if spec is None:
            spec = _torch.spec_of_local(local, mesh, placements, shape, stride)
            if spec is None:
                return _torch.torch_from_local(*given)
            self._specs.put(key, spec)
        return _torch.wrapped_local(local, spec, gradients)

    def gradient_of_local(self, ctx: Any, gradient: torch.Tensor) -> DTensor:
        """The gradient of what ``to_local`` gave. See torch; what somebody looks at, and gradients
        of gradients, are torch's."""
        source, asked, stride = _torch.source_of(ctx)
        if (
            torch.is_grad_enabled()
            or not _torch.is_own(gradient)
            or gradient.device.type != source.mesh.device_type  # torch moves it there
            or type(asked) not in _PLACEMENTS
            or not _torch.are_plain(source.placements)
            or not (asked is None or _torch.are_plain(asked))
            or not _torch.nobody_watches()
        ):
            return _torch.torch_gradient_of_local(ctx, gradient)
        # Meshes of other process groups may be equal.
        mesh = id(source.mesh)
        key = mesh, source, asked, stride, gradient.shape, gradient.stride(), gradient.dtype
        spec = self._of_gradients.get(key)
        if spec is not None:
            return _torch.wrapped_local(gradient, spec, None)
        made = _torch.torch_gradient_of_local(ctx, gradient)
        if source.mesh.get_coordinate() is not None:
            self._of_gradients.put(key, _torch.spec_of(made))
        return made
