"""How torch carries out a redistribution, and how that is replaced or watched."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType

import torch
from torch.distributed.tensor import _redistribute, _utils
from torch.utils._debug_mode import get_active_debug_mode

from .compiling import hide_from_dynamo
from .types import DTensorSpec

torch_redistribute = _redistribute.redistribute_local_tensor


def install_redistribute(function: Callable[..., torch.Tensor]) -> None:
    """Replace torch's execution of a redistribution, `torch_redistribute`."""
    hide_from_dynamo(function)
    _set_redistribute(function)


def installed_redistribute() -> Callable[..., torch.Tensor]:
    """What carries out redistributions now: torch's, or what was installed; without what is put
    around it while somebody watches."""
    return _carries_out


def uninstall_redistribute(before: Callable[..., torch.Tensor] = torch_redistribute) -> None:
    """Undo `install_redistribute`, over what was there `before`."""
    _set_redistribute(before)


def _set_redistribute(function: Callable[..., torch.Tensor]) -> None:
    global _carries_out
    _carries_out = function
    if _around_redistribute is not None:
        function = _around_redistribute(function)
        hide_from_dynamo(function)
    for module in _that_redistribute():
        setattr(module, torch_redistribute.__name__, function)


def _that_redistribute() -> list[ModuleType]:
    """torch's modules that have the function by name: looked for again when modules were loaded,
    since these have copied whichever function was there. (Looking takes 2 ms.)"""
    global _redistributing
    loaded = len(sys.modules)
    if _redistributing[0] != loaded:
        found = [
            module
            for name, module in list(sys.modules.items())
            if name.startswith("torch.distributed.tensor")
            and torch_redistribute.__name__ in vars(module)
        ]
        _redistributing = (loaded, found)
    return _redistributing[1]


_redistributing: tuple[int, list[ModuleType]] = (0, [])

# What carries out redistributions, and what is put around it while somebody watches.
_Redistribute = Callable[..., torch.Tensor]
_carries_out: _Redistribute = torch_redistribute
_around_redistribute: Callable[[_Redistribute], _Redistribute] | None = None


def watch_redistributions(around: Callable[[_Redistribute], _Redistribute]) -> None:
    """Put `around(function)` in the place of whichever function carries out a redistribution."""
    global _around_redistribute
    _around_redistribute = around
    _set_redistribute(_carries_out)


def is_redistribute_torchs() -> bool:
    """Is torch's own function there, but for what is put around it while somebody watches?"""
    there = _redistribute.redistribute_local_tensor
    return _carries_out is torch_redistribute and (there is torch_redistribute or is_watched())


def is_watched() -> bool:
    """Does somebody watch redistributions?"""
    return _around_redistribute is not None


def unwatch_redistributions() -> None:
    """Undo `watch_redistributions`."""
    global _around_redistribute
    _around_redistribute = None
    _set_redistribute(_carries_out)


def is_redistributed_here(source: DTensorSpec, target: DTensorSpec) -> bool:
    """Does torch go on to a plan? Else it raises, or has nothing to do on this rank."""
    mesh = source.mesh
    if mesh is not target.mesh and mesh != target.mesh:
        return False
    if source.use_strided_shard_as_shard_order is None:
        return False
    try:
        for spec in (source, target):
            _utils.assert_no_mixed_partial_types(spec.placements)
    except ValueError:
        return False
    return mesh._is_current_rank_part_of_mesh()


def recorded_redistribution(
    local: torch.Tensor,
    source: DTensorSpec,
    target: DTensorSpec,
    transforms: Callable[[], str],
    is_explicit: bool,
) -> AbstractContextManager[object]:
    """What DebugMode, where it is on, notes of a redistribution: the layouts passed through."""
    mode = get_active_debug_mode()
    if mode is None:
        return nullcontext()
    return mode.record_redistribute_calls(
        local, source.placements, target.placements, transforms(), is_explicit=is_explicit
    )
