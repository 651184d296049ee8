"""Where torch's answer for a decomposition depends on the order in which it tries placements.

torch takes the decisions of the calls inside from its cache, and the key of that cache does not
hold everything: tensors among the keyword arguments (``out=``) are not in it, nor are arguments
that the op's registration does not name. So the first combination of placements decides for all
later ones that differ in these alone. That is part of torch's answer; it is reproduced by asking in
torch's order and keeping answers under torch's key. (What the cache holds from earlier decisions is
not: an answer of ours is torch's with a fresh cache.)
"""

from __future__ import annotations

from typing import Any

from ...rules import torch_registry
from .program import Call, Program, Ref, fill, refs

__all__ = ["depends_on_order"]


def depends_on_order(program: Program) -> bool:
    """Can two questions inside the program differ and have one key?"""
    seen: dict[str, str] = {}
    for call in program.calls:
        if refs([*call.kwargs.values()]):
            return True
        if torch_registry.has_rule(call.op):
            whole = _text(program, call, (call.args, call.kwargs))
            if seen.setdefault(_text(program, call, _in_key(call)), whole) != whole:
                return True
    return False


def _in_key(call: Call) -> tuple[Any, ...]:
    """The arguments that torch's key holds."""
    info = torch_registry.op_schema_info(call.op)
    first = 100 if info is None else info.static_argnum
    names = () if info is None else info.static_kwargkey or ()
    args = [arg for i, arg in enumerate(call.args) if i >= first or refs(arg)]
    return (args, {name: call.kwargs.get(name) for name in names})


def _text(program: Program, call: Call, arguments: tuple[Any, ...]) -> str:
    """Equal for arguments that are equal, with metadata for tensors."""

    def meta(ref: Ref) -> Any:
        return program.metas[ref.value]

    args, kwargs = arguments
    named = {name: fill(item, meta) for name, item in kwargs.items()}
    return repr((call.op, [fill(arg, meta) for arg in args], named))
