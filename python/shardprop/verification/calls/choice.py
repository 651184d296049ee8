"""Which of an op's calls to keep: few, and as unlike each other as can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import torch

from .call import Call, tensors_in

__all__ = ["ELEMENTS", "diverse", "features", "is_small"]

# A call on more elements than this takes longer and shows nothing more.
ELEMENTS = 20_000

_Feature = tuple[object, ...]


def is_small(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Are the tensors of a call few enough elements to be run on every rank of many layouts?"""
    return sum(tensor.numel() for tensor in tensors_in((args, kwargs))) <= ELEMENTS


def features(args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[_Feature]:
    """What a rule may look at in a call, a feature for each argument and for pairs of tensors.

    Ranks, dims of size one, dtypes by kind, which arguments are given, lengths of lists, dims and
    flags. Sizes are no part of it, and numbers only by their type.
    """
    named = [*enumerate(args), *kwargs.items()]
    found: set[_Feature] = {(place, _feature(value)) for place, value in named}
    found.add((len(args), *sorted(kwargs)))
    tensors = [feature for place, value in named for feature in _shapes(place, value)]
    found |= {(a, b) for a, b in product(tensors, tensors) if str(a) < str(b)}
    return frozenset(found)


def diverse(calls: Iterable[Call], count: int) -> list[Call]:
    """At most `count` calls, each with the most features that none before it has.

    Calls on complex numbers, or on flags alone, are chosen where there are no others: what a
    pending sum of flags is, is anybody's guess.

    Of equals the first is taken, so the choice depends on nothing but the calls and their order.
    """
    calls = list(calls)
    calls = [call for call in calls if _is_numeric(call)] or calls
    left = [(call, features(call.args, call.kwargs)) for call in calls]
    chosen: list[Call] = []
    seen: set[_Feature] = set()
    while left and len(chosen) < count:
        news = [(not _is_empty(call), len(found - seen)) for call, found in left]
        best = news.index(max(news))
        if chosen and not all(news[best]):
            break
        call, found = left.pop(best)
        chosen.append(call)
        seen |= found
    return chosen


def _is_numeric(call: Call) -> bool:
    """Has it real numbers for operands, flags beside them at most?"""
    tensors = call.tensors
    return not any(t.is_complex() for t in tensors) and any(t.dtype != torch.bool for t in tensors)


def _is_empty(call: Call) -> bool:
    """Has it a tensor without elements? Little can be wrong about those."""
    return any(tensor.numel() == 0 for tensor in call.tensors)


def _feature(value: Any) -> object:
    if isinstance(value, torch.Tensor):
        kind = "c" if value.is_complex() else "f" if value.is_floating_point() else str(value.dtype)
        return (kind, tuple(size == 1 for size in value.shape))
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, int) for item in value) and len(value) < 6:
            return tuple(min(item, 4) for item in value)
        return (len(value), *sorted({repr(_feature(item)) for item in value}))
    if isinstance(value, (bool, str, type(None), torch.dtype, torch.memory_format)):
        return repr(value)
    if isinstance(value, int) and -4 <= value < 4:
        return value  # mostly a dim
    return type(value).__name__


def _shapes(place: object, value: Any) -> Iterator[_Feature]:
    """Ranks of the tensors directly among the arguments, and their dims of size one."""
    if isinstance(value, torch.Tensor):
        yield (place, value.ndim, tuple(size == 1 for size in value.shape))
