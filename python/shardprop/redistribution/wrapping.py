"""What ranks hold made a DTensor, with a spec that was made for one like it."""

from __future__ import annotations

import torch

from .. import _torch
from .._torch import DeviceMesh, DTensor, DTensorSpec, Placement
from ..support.cache import BoundedMap

__all__ = ["Wrapper"]

_SPECS_HELD = 4096
# Sizes of another class would compare equal, and stay in the spec.
_SHAPES, _STRIDES = (torch.Size, type(None)), (tuple, type(None))


class Wrapper:
    """Stands in for what ``DTensor.from_local`` makes tensors by."""

    def __init__(self) -> None:
        # A spec holds its mesh, whose number in the key is no other's meanwhile.
        self._specs: BoundedMap[DTensorSpec] = BoundedMap("specs of local tensors", _SPECS_HELD)

    def clear(self) -> None:
        """Forget all specs."""
        self._specs.clear()

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
        spec = None
        if (
            not run_check
            and _torch.is_own(local)
            and _torch.are_plain(placements)
            and type(shape) in _SHAPES
            and type(stride) in _STRIDES
            and _torch.nobody_watches()
        ):
            spec = self._spec(local, mesh, placements, shape, stride)
        if spec is None:
            return _torch.torch_from_local(
                local, mesh, placements, run_check, shape, stride, gradients
            )
        return _torch.wrapped_local(local, spec, gradients)

    def _spec(
        self,
        local: torch.Tensor,
        mesh: DeviceMesh,
        placements: tuple[Placement, ...],
        shape: torch.Size | None,
        stride: tuple[int, ...] | None,
    ) -> DTensorSpec | None:
        key = id(mesh), placements, local.shape, local.stride(), local.dtype, shape, stride
        spec = self._specs.get(key)
        if spec is None:
            spec = _torch.spec_of_local(local, mesh, placements, shape, stride)
            if spec is not None:
                self._specs.put(key, spec)
        return spec
