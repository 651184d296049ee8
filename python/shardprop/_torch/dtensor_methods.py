"""DTensor's own methods that redistribute, and others in their place or before them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch.distributed.tensor import _redistribute

from .compiling import hide_from_dynamo
from .types import DTensor, DTensorSpec

__all__ = [
    "install_methods",
    "torch_redistribute_back",
    "torchs_methods",
    "uninstall_methods",
    "watched_methods",
]

_NAMES = ("redistribute", "full_tensor")
torchs_methods: dict[str, Callable[..., Any]] = {name: vars(DTensor)[name] for name in _NAMES}
_installed: dict[str, Callable[..., Any]] = {}
# They call whatever is installed.
_watching: list[Callable[..., Any]] = []


def install_methods(**methods: Callable[..., Any]) -> None:
    """Put functions in the place of torch's methods, unless somebody else has done so."""
    for name, method in methods.items():
        present = vars(DTensor)[name]
        if present in (torchs_methods[name], _installed.get(name)):
            hide_from_dynamo(method)
            _installed[name] = method
            setattr(DTensor, name, method)
        elif present in _watching:
            _installed[name] = method


def uninstall_methods() -> None:
    """Undo `install_methods`."""
    for name, method in _installed.items():
        if vars(DTensor)[name] is method:
            setattr(DTensor, name, torchs_methods[name])
    _installed.clear()


@contextmanager
def watched_methods(
    notice: Callable[[DTensor, Any], None], names: tuple[str, ...]
) -> Iterator[None]:
    """Call `notice` after each call of these methods in a block, whatever is installed meanwhile.

    Args:
        notice: Called with the tensor, and what its method returned.
        names: Of methods of DTensor.
    """
    with ExitStack() as watches:
        for name in names:
            watches.enter_context(_watched(notice, name))
        yield


@contextmanager
def _watched(notice: Callable[[DTensor, Any], None], name: str) -> Iterator[None]:
    before = vars(DTensor)[name]
    torchs = torchs_methods.get(name)
    may_change = before in (torchs, _installed.get(name))

    def below() -> Any:
        return _installed.get(name, torchs) if may_change else before

    @functools.wraps(before)
    def watched(tensor: DTensor, *args: Any, **kwargs: Any) -> Any:
        made = below()(tensor, *args, **kwargs)
        notice(tensor, made)
        return made

    hide_from_dynamo(watched)
    _watching.append(watched)
    setattr(DTensor, name, watched)
    try:
        yield
    finally:
        _watching.remove(watched)
        if vars(DTensor)[name] is watched:
            setattr(DTensor, name, below())


def torch_redistribute_back(
    gradient: DTensor, source: DTensorSpec, async_op: bool, dtype: Any
) -> DTensor:
    """What torch does with the gradient of a redistribution; differentiable."""
    back: DTensor = _redistribute.NestedRedistribute.apply(  # type: ignore[no-untyped-call]
        gradient, source, async_op, dtype, dtype
    )
    return back
