"""What ranks hold made a DTensor, with a spec that was made for one like it."""

from __future__ import annotations

import torch

from .. import _torch
from .._torch import DeviceMesh, DTensor, DTensorSpec, Placement
from ..support.cache import BoundedMap

__all__ = ["Wrapper"]

_SPECS_HELD = 4096


class Wrapper:
    """Stands in for what ``DTensor.from_local`` makes tensors by."""

    def __init__(self) -> None:
        # With each its mesh, whose number in the key is no other's while the mesh is held.
        self._specs: BoundedMap[tuple[DeviceMesh, DTensorSpec]] = BoundedMap(
            "specs of local tensors", _SPECS_HELD
        )

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
        given = local, mesh, placements, run_check, shape, stride, gradients
        if run_check or not _torch.is_own(local) or not _torch.nobody_watches():
            return _torch.torch_from_local(*given)
        sizes = (None if each is None else tuple(each) for each in (shape, stride))
        key = id(mesh), placements, local.shape, local.stride(), local.dtype, *sizes
        found = self._specs.get(key)
        if found is None:
            made = _torch.torch_from_local(*given)
            if _torch.local_of(made).shape == local.shape:  # else this rank has no part in it
                self._specs.put(key, (mesh, _torch.spec_of(made)))
            return made
        if not local.requires_grad:
            return _torch.wrapped(local.view_as(local), found[1])
        if torch.is_grad_enabled():
            return _torch.wrapped_leaf(local, found[1], gradients)
        return _torch.torch_from_local(*given)
