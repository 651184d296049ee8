"""DTensor's own methods that redistribute, and others in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.distributed.tensor import _redistribute

from .compiling import hide_from_dynamo
from .types import DTensor, DTensorSpec

__all__ = ["install_methods", "torch_redistribute_back", "torchs_methods", "uninstall_methods"]

_NAMES = ("redistribute", "full_tensor")
torchs_methods: dict[str, Callable[..., Any]] = {name: vars(DTensor)[name] for name in _NAMES}
_installed: dict[str, Callable[..., Any]] = {}


def install_methods(**methods: Callable[..., Any]) -> None:
    """Put functions in the place of torch's methods, unless somebody else has done so."""
    for name, method in methods.items():
        if vars(DTensor)[name] in (torchs_methods[name], _installed.get(name)):
            hide_from_dynamo(method)
            _installed[name] = method
            setattr(DTensor, name, method)


def uninstall_methods() -> None:
    """Undo `install_methods`."""
    for name, method in _installed.items():
        if vars(DTensor)[name] is method:
            setattr(DTensor, name, torchs_methods[name])
    _installed.clear()


def torch_redistribute_back(
    gradient: DTensor, source: DTensorSpec, async_op: bool, dtype: Any
) -> DTensor:
    """What torch does with the gradient of a redistribution; differentiable."""
    back: DTensor = _redistribute.NestedRedistribute.apply(  # type: ignore[no-untyped-call]
        gradient, source, async_op, dtype, dtype
    )
    return back
