"""Methods of torch's that return what an object holds, called at each op by its dispatcher in C++.

A frame of Python for each is a quarter of what an op takes whose decision is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload

from .. import _core
from .types import DeviceMesh, DTensorSpec

__all__ = ["HELD_VALUES"]


def _hash_of_op(self: Any) -> int:
    return hash(self._op)


def _hash_of_handle(self: Any) -> int:
    return hash(self._cpp_dispatch_handle)


def _hash_of_spec(self: Any) -> int:
    if self._hash is None:
        self._hash = self._hash_impl()
    return self._hash  # type: ignore[no-any-return]


def _hash_of_mesh(self: Any) -> int:
    self._hash = getattr(self, "_hash", None)
    if not self._hash:
        self._hash = hash(self._hash_key())
    return self._hash  # type: ignore[no-any-return]


def _coordinate(self: Any) -> Any:
    return self._coordinate_on_dim


# The methods as torch's versions write them, and what they return: the value under a name, or its
# hash. Where there is none yet, torch's method is called.
_KNOWN: tuple[tuple[type, str, Callable[[Any], Any], str, bool], ...] = (
    (OpOverload, "__hash__", _hash_of_op, "_op", True),
    (OpOverload, "__hash__", _hash_of_handle, "_cpp_dispatch_handle", True),
    (DTensorSpec, "__hash__", _hash_of_spec, "_hash", False),
    (DeviceMesh, "__hash__", _hash_of_mesh, "_hash", False),
    (DeviceMesh, "get_coordinate", _coordinate, "_coordinate_on_dim", False),
)


class _HeldValues:
    """Has these methods read the value, unless somebody else has changed them, or torch does
    something else there."""

    def install(self) -> None:
        for owner, name, known, attribute, is_hashed in _KNOWN:
            there: Any = vars(owner).get(name)
            if _does_what(there, known):
                setattr(owner, name, _core.HeldValue(there, attribute, is_hashed))

    def uninstall(self) -> None:
        for owner, name, *_ in _KNOWN:
            there = vars(owner).get(name)
            if type(there) is _core.HeldValue:
                setattr(owner, name, there.__wrapped__)


HELD_VALUES = _HeldValues()


def _does_what(function: Any, known: Any) -> bool:
    code, knowns = getattr(function, "__code__", None), known.__code__
    return code is not None and all(
        getattr(code, part) == getattr(knowns, part)
        for part in ("co_code", "co_names", "co_freevars")
    )
