"""Where the code of a rule is, as a person looks for it."""

from __future__ import annotations

import functools
import inspect
from pathlib import Path
from typing import Any

import torch

from ..support.folder import FOLDER
from .notation.rule_text import Notation

__all__ = ["function_place", "innermost", "short_path", "unwrapped"]

_TORCHS = Path(torch.__file__).parent
# Files with functions that merely wrap the function of a rule.
_WRAPPERS = {str(FOLDER / "rules" / name) for name in ("follow_rule.py", "row_rule.py")}


def function_place(function: Any) -> str:
    """``file:line name``, the file from torch or shardprop on if it is one of theirs."""
    function = unwrapped(function)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{getattr(function, '__module__', None) or 'built in'} {name}"
    return f"{short_path(code.co_filename)}:{code.co_firstlineno} {name.rpartition('.')[2]}"


def unwrapped(function: Any) -> Any:
    """The function that wrappers, and what binds arguments, are around."""
    while isinstance(function, functools.partial):
        # torch's `register_sharding` binds the program's function to one of its own.
        function = next((a for a in function.args if callable(a)), function.func)
    return inspect.unwrap(function)


def innermost(function: Any) -> Any:
    """What the functions of `follow_rule` and `row_rule` wrap: a function, or a notation."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename not in _WRAPPERS:
        return function
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    inner = [each for each in held if callable(each) or isinstance(each, Notation)]
    return innermost(inner[0]) if inner else function


def short_path(place: str) -> str:
    """A path from torch or shardprop on; others as they are."""
    for home in (FOLDER, _TORCHS):
        if place.startswith(f"{home}/"):
            return place[len(str(home.parent)) + 1 :]
    return place
