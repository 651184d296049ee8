"""Which of an op's arguments are operands, and what they are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .._torch import DTensorSpec, OpOverload, TensorMeta
from .op_traits import traits_of

__all__ = ["Operand", "keyword_order", "operands_of"]


class Operand(NamedTuple):
    """A tensor that an op was given.

    Attributes:
        argument: The name of the argument.
        name: The same, with the place in the list if it is one of several: ``"xs[1]"``.
        meta: Its metadata, or its spec where the arguments are specs.
    """

    argument: str
    name: str
    meta: TensorMeta | DTensorSpec


def operands_of(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Operand]:
    """The operands in the order of a rule's row: that of the schema, keyword arguments last.

    `args` and `kwargs` have metadata in place of tensors, as a rule sees them, or specs.
    """
    names = traits_of(op).arguments
    given = [*zip(names, args, strict=False)]
    given += [(name, kwargs[name]) for name in _in_order_of_schema(names, kwargs)]
    return [operand for name, value in given for operand in _tensors(name, name, value)]


def keyword_order(op: OpOverload, kwargs: Mapping[str, Any]) -> list[int] | None:
    """For each keyword operand in the order of `kwargs` its place in the order of the schema.

    torch counts keyword operands as they were given, a row names them in the order of the schema.
    None where the two are the same.
    """
    wanted = _in_order_of_schema(traits_of(op).arguments, kwargs)
    if wanted == [*kwargs]:
        return None
    counts = {name: len([*_tensors(name, name, value)]) for name, value in kwargs.items()}
    first, starts = 0, {}
    for name in wanted:
        starts[name] = first
        first += counts[name]
    return [starts[name] + i for name in kwargs for i in range(counts[name])]


def _in_order_of_schema(names: Sequence[str], kwargs: Mapping[str, Any]) -> list[str]:
    return sorted(kwargs, key=lambda name: names.index(name) if name in names else len(names))


def _tensors(argument: str, name: str, value: Any) -> Iterator[Operand]:
    if isinstance(value, (TensorMeta, DTensorSpec)):
        yield Operand(argument, name, value)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _tensors(argument, f"{name}[{index}]", item)
