"""A call of an op on local tensors, of which only the metadata is there."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import torch

from ..._torch import OpOverload, TensorMeta, function_schema
from ...errors import ShardpropError

__all__ = ["Call", "Operand", "bind"]

_OPS_HELD = 4096
_METAS_HELD = 16_384

# What ops give beside tensors: no memory of the device.
_NUMBERS = (int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)


class Operand(NamedTuple):
    """A local tensor, as far as its cost goes.

    Attributes:
        shape: On one device.
        dtype: Of its elements.
        expanded: For each dim, has it stride 0? Then its elements are one and the same in memory.
        row_major: Is it contiguous?
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    expanded: tuple[bool, ...]
    row_major: bool

    @property
    def elements(self) -> int:
        """How many there are, however many of them are in memory."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Of all elements."""
        return self.elements * self.dtype.itemsize

    @property
    def held_bytes(self) -> int:
        """Of the elements that are in memory: an expanded dim has one for all of its size."""
        if 0 in self.shape:
            return 0
        sizes = (n for n, same in zip(self.shape, self.expanded, strict=True) if not same)
        return prod(sizes) * self.dtype.itemsize


class _Schema(NamedTuple):
    """What an op's schema says of its arguments."""

    name: str
    positional: tuple[str, ...]
    arguments: frozenset[str]
    defaults: Mapping[str, object]
    mutated: frozenset[str]
    outs: frozenset[str]
    returns: int


@dataclass(frozen=True)
class Call:
    """A call with its arguments under the names that the schema gives them.

    Attributes:
        op: What is called.
        schema: Of it.
        tensors: All tensors among the arguments, in the order of args and then kwargs.
        places: The numbers of an argument's tensors.
        values: The arguments as given, those left out by their defaults.
        args: As given.
        kwargs: As given.
        outputs: None where one is absent.
    """

    op: OpOverload
    schema: _Schema
    tensors: tuple[Operand, ...]
    places: Mapping[str, tuple[int, ...]]
    values: Mapping[str, Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[Operand | None, ...]

    def tensor(self, name: str) -> Operand:
        """The tensor that an argument is.

        Raises:
            ShardpropError: it is none.
        """
        places = self.places.get(name, ())
        if len(places) != 1:
            raise ShardpropError(f"{self.op}: Expected a TensorMeta for {name}, got none.")
        return self.tensors[places[0]]

    def tensors_of(self, name: str) -> tuple[Operand, ...]:
        """The tensors in an argument, which may be a list, or None."""
        return tuple(self.tensors[place] for place in self.places.get(name, ()))

    def output(self, number: int = 0) -> Operand:
        """One of the outputs.

        Raises:
            ShardpropError: there is none.
        """
        found = self.outputs[number] if number < len(self.outputs) else None
        if found is None:
            raise ShardpropError(f"{self.op}: Expected a TensorMeta for output {number}, got none.")
        return found

    def with_shapes(
        self,
        shapes: Sequence[tuple[int, ...]],
        output_shapes: Sequence[tuple[int, ...] | None],
    ) -> Call:
        """The same call on tensors of other shapes, dim by dim expanded as these are."""
        tensors = (t._replace(shape=shape) for t, shape in zip(self.tensors, shapes, strict=True))
        outputs = (
            None if output is None or shape is None else output._replace(shape=shape)
            for output, shape in zip(self.outputs, output_shapes, strict=True)
        )
        return replace(self, tensors=tuple(tensors), outputs=tuple(outputs))


def bind(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: object) -> Call:
    """The call, checked against the op's schema.

    Raises:
        ShardpropError: arguments that the op does not have, a tensor where its metadata belongs,
            sizes that are no ints.
    """
    schema = _schema_of(op)
    if len(args) > len(schema.positional):
        raise ShardpropError(
            f"{op}: Expected at most {len(schema.positional)} positional arguments, got "
            f"{len(args)}."
        )
    given = dict(zip(schema.positional, args, strict=False))
    for name, value in kwargs.items():
        if name not in schema.arguments or name in given:
            again = "it twice" if name in given else "one that it does not have"
            raise ShardpropError(f"{op}: {name}: Expected an argument of the op, got {again}.")
        given[name] = value
    tensors: list[Operand] = []
    places: dict[str, tuple[int, ...]] = {}
    for name, value in given.items():
        found = [_operand(op, name, meta) for meta in _leaves(op, name, value)]
        if found:
            places[name] = tuple(range(len(tensors), len(tensors) + len(found)))
            tensors += found
    return Call(
        op=op,
        schema=schema,
        tensors=tuple(tensors),
        places=places,
        values={**schema.defaults, **given},
        args=tuple(args),
        kwargs=dict(kwargs),
        outputs=tuple(_outputs(op, outputs)),
    )


def _outputs(op: OpOverload, outputs: object) -> Iterator[Operand | None]:
    if isinstance(outputs, TensorMeta):
        yield _operand(op, "outputs", outputs)
        return
    if outputs is None or isinstance(outputs, _NUMBERS):
        return
    if not isinstance(outputs, (list, tuple)):
        raise ShardpropError(
            f"{op}: outputs: Expected TensorMeta, a sequence of them or None, got "
            f"{type(outputs).__name__}."
        )
    for item in outputs:
        # Attention gives lengths of sequences among its outputs.
        if item is None or isinstance(item, _NUMBERS):
            yield None
        else:
            yield from _outputs(op, item)


def _leaves(op: OpOverload, name: str, value: object) -> Iterator[TensorMeta]:
    if isinstance(value, TensorMeta):
        yield value
    elif isinstance(value, torch.Tensor):
        raise ShardpropError(
            f"{op}: {name}: Expected TensorMeta(shape, stride, dtype) of the local tensor, got a "
            f"{type(value).__name__}."
        )
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(op, name, item)


def _operand(op: OpOverload, name: str, meta: TensorMeta) -> Operand:
    try:
        found = _described(meta)
    except TypeError:  # sizes without a hash: expressions
        found = f"sizes that are ints of at least 0, got {tuple(meta.shape)}"
    if isinstance(found, str):
        raise ShardpropError(f"{op}: {name}: Expected {found}.")
    return found


@functools.lru_cache(_METAS_HELD)
def _described(meta: TensorMeta) -> Operand | str:
    """The operand, or what was expected of it and what came."""
    shape, stride = tuple(meta.shape), tuple(meta.stride)
    if any(type(size) is not int or size < 0 for size in shape):
        return f"sizes that are ints of at least 0, got {shape}"
    if len(stride) != len(shape):
        return f"a stride for each of {len(shape)} dims, got {stride}"
    expanded = tuple(type(step) is int and step == 0 for step in stride)
    return Operand(shape, meta.dtype, expanded, _is_row_major(shape, stride))


def _is_row_major(shape: Sequence[int], stride: Sequence[Any]) -> bool:
    expected = 1
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True


@functools.lru_cache(_OPS_HELD)
def _schema_of(op: OpOverload) -> _Schema:
    schema = function_schema(op)
    arguments = schema.arguments
    return _Schema(
        name=schema.name,
        positional=tuple(a.name for a in arguments if not a.kwarg_only),
        arguments=frozenset(a.name for a in arguments),
        defaults={a.name: a.default_value for a in arguments if a.has_default_value()},
        mutated=frozenset(
            a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write
        ),
        outs=frozenset(a.name for a in arguments if a.is_out),
        returns=len(schema.returns),
    )
