"""A call of an op as torch's dispatcher hands it on: checked against the op's schema, arguments in
their places."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import _torch
from .._torch import DTensorSpec, OpOverload, OpSchema
from ..errors import ShardpropError
from ..rules import torch_registry

__all__ = ["call_schema", "placed_arguments", "specs_of"]


def call_schema(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> OpSchema:
    """The schema that torch's dispatcher makes of a call with specs in place of tensors.

    Raises:
        ShardpropError: no spec among the arguments, or as `placed_arguments`.
    """
    if not _specs_among((*args, *kwargs.values())):
        raise ShardpropError(f"{op}: Expected a DTensorSpec among the arguments, got none.")
    placed, named = placed_arguments(op, args, kwargs)
    return torch_registry.op_schema(op, placed, named)


class _Argument(NamedTuple):
    """One argument of an op, as its schema has it."""

    name: str
    has_default: bool
    default: Any
    is_tensor: bool
    is_tensor_list: bool
    is_optional: bool

    def is_default(self, value: Any) -> bool:
        """Is it what the op takes where it is not given the argument?"""
        if not self.has_default:
            return False
        default = self.default
        return value is default or (type(value) is type(default) and bool(value == default))


@functools.cache
def _arguments_of(op: OpOverload) -> tuple[list[_Argument], dict[str, _Argument]]:
    """Those with a place, and those that are given by name alone."""
    placed: list[_Argument] = []
    named: dict[str, _Argument] = {}
    for each in _torch.function_schema(op).arguments:
        kind = str(each.type)
        has_default = each.has_default_value()
        argument = _Argument(
            name=each.name,
            has_default=has_default,
            default=each.default_value if has_default else None,
            is_tensor="Tensor" in kind and "List[" not in kind,
            is_tensor_list="Tensor" in kind and "List[" in kind,
            is_optional="Optional[" in kind,
        )
        if each.kwarg_only:
            named[argument.name] = argument
        else:
            placed.append(argument)
    return placed, named


def placed_arguments(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as torch's dispatcher has them: those that are given by name, but have a place,
    in their place, and without the last ones where they are the schema's defaults.

    Raises:
        ShardpropError: what is no op, too many arguments or an unknown one, one that is missing, or
            a tensor where a list belongs and the other way round; the message names the argument.
    """
    if not isinstance(op, OpOverload):
        raise ShardpropError(
            f"op: Expected an op overload such as torch.ops.aten.mm.default, got {op!r}."
        )
    arguments, by_name = _arguments_of(op)
    if len(args) > len(arguments):
        raise ShardpropError(
            f"{op}: Expected at most {len(arguments)} positional arguments, got {len(args)}."
        )
    left, placed = dict(kwargs), [*args]
    for argument in arguments[len(args) :]:
        if argument.name in left:
            placed.append(left.pop(argument.name))
        elif argument.has_default:
            placed.append(argument.default)
        else:
            raise ShardpropError(f"{op}: Expected the argument {argument.name!r}, got none.")
    for name, argument in by_name.items():
        if name not in left and not argument.has_default:
            raise ShardpropError(f"{op}: Expected the argument {name!r}, got none.")
    for name, value in left.items():
        if any(argument.name == name for argument in arguments[: len(args)]):
            raise ShardpropError(f"{op}: Expected {name!r} once, got it by place and by name.")
        if name not in by_name:
            raise ShardpropError(f"{op}: Expected arguments that it has, got {name!r}.")
        _check(op, by_name[name], value)
    for argument, value in zip(arguments, placed, strict=True):
        _check(op, argument, value)
    while placed and arguments[len(placed) - 1].is_default(placed[-1]):
        placed.pop()
    return tuple(placed), {n: v for n, v in left.items() if not by_name[n].is_default(v)}


def _check(op: OpOverload, argument: _Argument, value: Any) -> None:
    """Refuse a list where a tensor belongs, and the other way round: torch's own code and rules
    would do anything at all with it. None stands for an undefined tensor, which autograd passes
    where a schema has a plain ``Tensor`` (``attn_bias`` of the backward pass of efficient
    attention).

    Raises:
        ShardpropError: the message names the argument.
    """
    is_list = isinstance(value, (list, tuple)) and not isinstance(value, _torch.TensorMeta)
    if argument.is_tensor_list and not is_list and value is not None:
        raise ShardpropError(
            f"{op}, {argument.name}: Expected a list of tensors, got {_named(value)}."
        )
    if argument.is_tensor and is_list:
        raise ShardpropError(f"{op}, {argument.name}: Expected a tensor, got a list.")
    if argument.is_tensor_list and not argument.is_optional and None in (value or ()):
        raise ShardpropError(f"{op}, {argument.name}: Expected tensors, got None among them.")


def _named(value: Any) -> str:
    return f"one {type(value).__name__}" if isinstance(value, DTensorSpec) else repr(value)


def specs_of(schema: OpSchema) -> list[DTensorSpec]:
    """Every spec among the arguments, those in lists that torch does not look into, too."""
    return _specs_among((*schema.args_schema, *schema.kwargs_schema.values()))


def _specs_among(values: Iterable[Any]) -> list[DTensorSpec]:
    found: list[DTensorSpec] = []
    for value in values:
        if isinstance(value, DTensorSpec):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _specs_among(value)
    return found
