"""Fills the arguments of an op from its schema: tensors are given, the rest is made up by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import OpOverload

from .dice import Dice
from .sketch import Problem, Sketch

_STRINGS: dict[str, tuple[str | None, ...]] = {
    "approximate": ("none", "tanh"),
    "rounding_mode": (None, "floor", "trunc"),
    "reduce": ("prod", "mean", "amax", "amin"),
    "UPLO": ("L", "U"),
    "mode": ("reduced", "complete"),
    "api_name": ("linalg.solve",),
    "driver": (None,),
}
_DTYPES = (torch.float32, torch.float64, torch.bfloat16)


def fill(
    op: OpOverload, dice: Dice, given: Mapping[str, object], about: Sketch | None = None
) -> Problem:
    """A call of `op` with the given arguments; the others get random values.

    `about` is the tensor that arguments such as ``dim`` speak of. Trailing positional arguments and
    keyword arguments that equal their default are left out, as torch's dispatcher does.
    """
    given = dict(given)
    args: list[object] = []
    kwargs: dict[str, object] = {}
    for argument in op._schema.arguments:
        if argument.is_out and argument.name not in given:
            continue
        value = given.pop(argument.name, _MISSING)
        if value is _MISSING and op._schema.is_mutable and "dtype" in argument.name:
            value = None  # what is written in place keeps its dtype
        if value is _MISSING:
            value = _value(argument, dice, about)
        if not argument.kwarg_only:
            args.append(value)
        elif not _is_default(argument, value):
            kwargs[argument.name] = value
    if given:
        raise TypeError(f"{op} takes no argument {sorted(given)}")
    positional = [a for a in op._schema.arguments if not a.kwarg_only and not a.is_out]
    while args and _is_default(positional[len(args) - 1], args[-1]):
        args.pop()
    return Problem(op, tuple(args), kwargs)


_MISSING = object()


def _is_default(argument: Any, value: object) -> bool:
    if isinstance(value, (Sketch, torch.dtype)) or not argument.has_default_value():
        return False
    default = argument.default_value
    return type(default) is type(value) and default == value


def _value(argument: Any, dice: Dice, about: Sketch | None) -> object:
    """A plausible value for an argument that is not a tensor (or None for an optional tensor)."""
    kind = str(getattr(argument, "real_type", argument.type))
    if argument.has_default_value() and dice.chance(0.6):
        return argument.default_value
    if kind.startswith("Optional[") and kind.endswith("]"):
        inner = kind.removeprefix("Optional[").removesuffix("]")
        if inner in ("Tensor", "Generator", "Layout", "Device") or dice.chance(0.4):
            return None
        return _plain(inner, argument.name, dice, about)
    return _plain(kind, argument.name, dice, about)


def _plain(kind: str, name: str, dice: Dice, about: Sketch | None) -> object:
    ndim = about.ndim if about is not None else 1
    match kind:
        case "bool":
            return dice.chance(0.5)
        case "number":
            return _number(about, dice)
        case "float":
            return dice.pick((0.1, 0.5, 1.0))
        case "int":
            return dice.dim(ndim) if name in ("dim", "dim1", "dim2") else dice.pick((1, 2))
        case "str":
            return dice.pick(_STRINGS[name])
        case "List[int]" if name in ("dim", "dims"):
            return dice.dims(ndim, low=1)
        case "List[bool]":
            return [True]
        case "ScalarType":
            return dice.pick(_DTYPES)
        case "MemoryFormat":
            return dice.pick((torch.contiguous_format, torch.preserve_format))
    raise NotImplementedError(f"no value for argument {name} of type {kind}")


def _number(about: Sketch | None, dice: Dice) -> int | float:
    if about is not None and not about.dtype.is_floating_point:
        return dice.pick((0, 1, 2))
    return dice.pick((0, 1, 2, 0.5, -1.0))
