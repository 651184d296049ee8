"""A list op (foreach and fused) as calls of one element each, which is how torch decides it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..._torch import DTensor, DTensorSpec, OpOverload, OpStrategy, TensorMeta, spec_of
from ...errors import ShardpropError
from ...propagation.list_ops import is_tensor_list
from .sources import check_count

__all__ = ["TENSORS", "Element", "cut_into_elements"]

# What may be given in place of a tensor.
TENSORS = (TensorMeta, torch.Tensor, DTensorSpec, OpStrategy)


class Element(NamedTuple):
    """The op on one element of each list.

    Attributes:
        args: The arguments, each list of tensors or numbers with that element alone.
        sources: Its part of the sources; None where none were given.
        key: Equal for elements that are alike.
    """

    args: tuple[Any, ...]
    sources: list[Any] | None
    key: object


def cut_into_elements(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], sources: Any
) -> list[Element]:
    """The elements in order.

    Raises:
        ShardpropError: the lists differ in length, or sources are not one for each operand.
    """
    lengths = [len(arg) for arg in args if is_tensor_list(arg, TENSORS)]
    length = lengths[0]
    if any(other != length for other in lengths):
        raise ShardpropError(f"{op}: Expected lists of one length, got {lengths}.")
    counts = [_operands(arg) for arg in (*args, *kwargs.values())]
    if sources is not None:
        check_count(op, sources, sum(counts))
    found = []
    for index in range(length):
        cut = tuple(_at(arg, index, length) for arg in args)
        mine = None if sources is None else [*_of_element(args, counts, sources, index)]
        found.append(Element(cut, mine, _key((cut, mine))))
    return found


def _key(item: Any) -> object:
    """Equal only for what is the same to a rule and to prices: of a tensor, its metadata."""
    if isinstance(item, DTensor):
        return _key(spec_of(item))
    if isinstance(item, torch.Tensor):
        return "tensor", tuple(item.shape), item.stride(), item.dtype
    if isinstance(item, TensorMeta):
        return "tensor", tuple(item.shape), tuple(item.stride), item.dtype
    if isinstance(item, DTensorSpec):
        return item.mesh, item.placements, item.shard_order, _key(item.tensor_meta)
    if isinstance(item, OpStrategy):
        return type(item), id(item)
    if isinstance(item, (list, tuple)):
        return type(item), tuple(map(_key, item))
    return type(item), repr(item)


def _operands(value: Any) -> int:
    return len(value) if is_tensor_list(value, TENSORS) else int(isinstance(value, TENSORS))


def _at(arg: Any, index: int, length: int) -> Any:
    """A list of tensors, or of a number for each of them, cut down to one."""
    numbers = isinstance(arg, (list, tuple)) and not isinstance(arg, TensorMeta)
    if is_tensor_list(arg, TENSORS) or (numbers and len(arg) == length):
        return type(arg)([arg[index]])
    return arg


def _of_element(
    args: Sequence[Any], counts: Sequence[int], sources: Sequence[Any], index: int
) -> Iterator[Any]:
    first = 0
    for place, count in enumerate(counts):
        is_list = place < len(args) and is_tensor_list(args[place], TENSORS)
        yield from (
            sources[first + index : first + index + 1]
            if is_list
            else sources[first : first + count]
        )
        first += count
