"""Which overload of an op takes some arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._torch import DTensorSpec, OpOverload, function_schema

__all__ = ["fits"]


def fits(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Does the op take tensors where there are specs, and no others where it needs one?"""
    known = function_schema(op).arguments
    positional = [argument for argument in known if not argument.kwarg_only]
    if len(args) > len(positional) or not kwargs.keys() <= {argument.name for argument in known}:
        return False
    given = {argument.name: value for argument, value in zip(positional, args, strict=False)}
    if given.keys() & kwargs.keys():
        return False
    given |= kwargs
    for argument in known:
        if argument.name not in given:
            if not argument.has_default_value():
                return False
        elif not _takes(str(argument.type), given[argument.name]):
            return False
    return True


def _takes(kind: str, value: Any) -> bool:
    """Does an argument of a TorchScript type take the value?"""
    kind, optional = kind.removeprefix("Optional[").removesuffix("]"), kind.startswith("Optional[")
    if value is None:
        return optional
    if "Tensor" in kind:
        values = value if isinstance(value, list) else [value]
        are_lists = isinstance(value, list) == kind.startswith("List[")
        return are_lists and all(isinstance(item, DTensorSpec) for item in values)
    if isinstance(value, DTensorSpec):
        return False
    if kind.startswith("List["):
        return isinstance(value, (list, tuple))
    expected: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "SymInt": (int,),
        "float": (int, float),
        "number": (int, float, complex),
        "Scalar": (int, float, complex),
        "bool": (bool,),
        "str": (str,),
    }
    if kind in ("int", "SymInt") and isinstance(value, bool):
        return False
    return kind not in expected or isinstance(value, expected[kind])
