"""A call of an op as torch's dispatcher hands it on: checked against the op's schema, arguments in
their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _torch, registry
from ._torch import DTensorSpec, OpOverload, OpSchema
from .errors import ShardpropError

__all__ = ["call_schema", "placed_arguments", "specs_of"]


def call_schema(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> OpSchema:
    """The schema that torch's dispatcher makes of a call with specs in place of tensors.

    Raises:
        ShardpropError: no spec among the arguments, or as `placed_arguments`.
    """
    if not any(isinstance(leaf, DTensorSpec) for leaf in _torch.tree_leaves((args, kwargs))):
        raise ShardpropError(f"{op}: Expected a DTensorSpec among the arguments, got none.")
    placed, named = placed_arguments(op, args, kwargs)
    return registry.op_schema(op, placed, named)


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
    arguments = _torch.function_schema(op).arguments
    positional = [each for each in arguments if not each.kwarg_only]
    if len(args) > len(positional):
        raise ShardpropError(
            f"{op}: Expected at most {len(positional)} positional arguments, got {len(args)}."
        )
    left = dict(kwargs)
    placed = [*args]
    for argument in positional[len(args) :]:
        if argument.name in left:
            placed.append(left.pop(argument.name))
        elif argument.has_default_value():
            placed.append(argument.default_value)
        else:
            raise ShardpropError(f"{op}: Expected the argument {argument.name!r}, got none.")
    named = {each.name: each for each in arguments if each.kwarg_only}
    for name in left:
        if name not in named:
            raise ShardpropError(f"{op}: Expected arguments that it has, got {name!r}.")
    for argument, value in zip(positional, placed, strict=True):
        _check(op, argument, value)
    for name, value in left.items():
        _check(op, named[name], value)
    while placed and _is_default(positional[len(placed) - 1], placed[-1]):
        placed.pop()
    return tuple(placed), {n: v for n, v in left.items() if not _is_default(named[n], v)}


def _is_default(argument: Any, value: Any) -> bool:
    if not argument.has_default_value():
        return False
    default = argument.default_value
    return value is default or (type(value) is type(default) and bool(value == default))


def _check(op: OpOverload, argument: Any, value: Any) -> None:
    """A list of tensors where a tensor belongs, or the other way round, makes torch's own code and
    rules do anything at all."""
    kind = str(argument.type)
    if "Tensor" not in kind:
        return
    takes_list = "List[" in kind
    is_list = isinstance(value, (list, tuple)) and not isinstance(value, _torch.TensorMeta)
    if takes_list and not is_list and value is not None:
        raise ShardpropError(
            f"{op}, {argument.name}: Expected a list of tensors, got {_named(value)}."
        )
    if not takes_list and is_list:
        raise ShardpropError(f"{op}, {argument.name}: Expected a tensor, got a list.")


def _named(value: Any) -> str:
    return f"one {type(value).__name__}" if isinstance(value, DTensorSpec) else repr(value)


def specs_of(schema: OpSchema) -> list[DTensorSpec]:
    """Every spec among the arguments, those in lists that torch does not look into, too."""
    leaves = _torch.tree_leaves((schema.args_schema, schema.kwargs_schema))
    return [leaf for leaf in leaves if isinstance(leaf, DTensorSpec)]
