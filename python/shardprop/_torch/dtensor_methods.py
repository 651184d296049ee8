"""DTensor's own methods that redistribute, and others in their place or before them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed.tensor import _redistribute

from .compiling import hide_from_dynamo
from .types import DTensor, DTensorSpec

__all__ = [
    "install_methods",
    "torch_redistribute_back",
    "torchs_methods",
    "uninstall_methods",
    "watched_redistribute",
]

_WATCHED = "redistribute"
_NAMES = (_WATCHED, "full_tensor")
torchs_methods: dict[str, Callable[..., Any]] = {name: vars(DTensor)[name] for name in _NAMES}
_installed: dict[str, Callable[..., Any]] = {}
# Those who watch redistributions, and the method that tells them while there are any.
_notices: list[Callable[[DTensor, DTensor], None]] = []
_watches: list[Any] = []
_changing = threading.RLock()


def install_methods(**methods: Callable[..., Any]) -> None:
    """Put functions in the place of torch's methods, unless somebody else has done so."""
    for name, method in methods.items():
        present = vars(DTensor)[name]
        if present in (torchs_methods[name], _installed.get(name), *_watches):
            hide_from_dynamo(method)
            _installed[name] = method
            if present not in _watches:
                setattr(DTensor, name, method)


def uninstall_methods() -> None:
    """Undo `install_methods`."""
    for name, method in _installed.items():
        if vars(DTensor)[name] is method:
            setattr(DTensor, name, torchs_methods[name])
    _installed.clear()


@contextmanager
def watched_redistribute(notice: Callable[[DTensor, DTensor], None]) -> Iterator[None]:
    """Call `notice` after each ``DTensor.redistribute`` in a block, whoever is enabled meanwhile.

    Args:
        notice: Called with the tensor, and what it became.
    """
    with _changing:
        if not _notices:
            _watches[:] = [_watch_of(vars(DTensor)[_WATCHED])]
            setattr(DTensor, _WATCHED, _watches[0])
        _notices.append(notice)
    try:
        yield
    finally:
        with _changing:
            _notices.remove(notice)
            if not _notices:
                (watch,) = _watches
                _watches.clear()
                if vars(DTensor)[_WATCHED] is watch:
                    setattr(DTensor, _WATCHED, watch.below())


def _watch_of(present: Callable[..., Any]) -> Any:
    """Calls what somebody else put there, else whatever is installed, and those who watch."""
    torchs = torchs_methods[_WATCHED]
    is_ours = present in (torchs, _installed.get(_WATCHED))

    def below() -> Callable[..., Any]:
        return _installed.get(_WATCHED, torchs) if is_ours else present

    @functools.wraps(torchs)
    def watch(tensor: DTensor, *args: Any, **kwargs: Any) -> DTensor:
        made: DTensor = below()(tensor, *args, **kwargs)
        if watch in _watches:
            for notice in [*_notices]:
                notice(tensor, made)
        return made

    hide_from_dynamo(watch)
    vars(watch)["below"] = below
    return watch


def torch_redistribute_back(
    gradient: DTensor, source: DTensorSpec, async_op: bool, dtype: Any
) -> DTensor:
    """What torch does with the gradient of a redistribution; differentiable."""
    back: DTensor = _redistribute.NestedRedistribute.apply(  # type: ignore[no-untyped-call]
        gradient, source, async_op, dtype, dtype
    )
    return back
