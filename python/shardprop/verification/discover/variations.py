"""More calls from the given ones: other dims, flags and numbers, and sizes that do not divide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from ... import _torch
from ...model.op_traits import traits_of
from ..calls.call import Call, tensors_in
from ..calls.resizing import resized, sizes_of
from ..simulator.compare import is_rounded
from .evidence import named_arguments
from .slots import signature_of

__all__ = ["never_varied", "varied"]

_MOST_PER_ARGUMENT = 3


def varied(calls: Sequence[Call], seed: int = 0) -> list[Call]:
    """The given calls, and those that the op takes with another argument or with other sizes."""
    more = [*calls, *_other_arguments(calls)]
    random = torch.Generator().manual_seed(seed)
    for call in tuple(more):
        for resize, word in ((_less, "shrunk"), (_more, "grown")):
            change = {size: resize(size) for size in sizes_of(call) if resize(size) != size}
            if not change:
                continue
            # Integers may be indices, which have to stay inside of what they point into.
            tries = (resized(call, change, random, wrap) for wrap in (False, True))
            taken = (other for other in tries if _is_taken(other))
            more += [replace(one, origin=f"{call.origin}, {word}") for one in islice(taken, 1)]
    return more + [other for call in calls for other in _of_other_signs(call)]


def _of_other_signs(call: Call) -> Iterator[Call]:
    """The call with integers of both signs, then with negative ones, where it has none below 0, as
    far as the op takes it: what passes on a maximum of those may not do so of others.

    Floats are turned wherever a call is tried. Integers beside floats may be indices.
    """
    if not call.tensors or not all(_is_natural(tensor) for tensor in call.tensors):
        return
    for sign, word in ((_alternating, "of both signs"), (_negative, "negative")):
        other = call.with_tensors(sign, f", {word}")
        if _is_taken(other):
            yield other


def _is_natural(tensor: torch.Tensor) -> bool:
    """Is it of integers that may be negative, and are not?"""
    is_signed = not is_rounded(tensor.dtype) and tensor.dtype.is_signed
    return is_signed and tensor.numel() > 0 and bool((tensor >= 0).all())


def _negative(tensor: torch.Tensor) -> torch.Tensor:
    """From -2 down: -1 is one of the numbers that ops treat apart, and so is 0."""
    return -2 - tensor


def _alternating(tensor: torch.Tensor) -> torch.Tensor:
    """Every other element negated, those of a row beginning with one that is."""
    signs = torch.ones(tensor.numel(), dtype=tensor.dtype)
    signs[::2] = -1
    return tensor * signs.reshape(tensor.shape)


def never_varied(calls: Sequence[Call]) -> dict[str, str]:
    """The arguments that had one value in all calls, though they are no tensors."""
    values: dict[str, set[str]] = {}
    for call in calls:
        for name, value in named_arguments(call).items():
            if not tensors_in(value):
                values.setdefault(name, set()).add(repr(value))
    tensors = {slot.name for slot in signature_of(calls[0].op).operands}
    return {
        name: next(iter(found))
        for name, found in values.items()
        if len(found) == 1 and name not in tensors
    }


def _other_arguments(calls: Sequence[Call]) -> Iterator[Call]:
    """Calls with one argument changed to a value that none of as many dims has, as far as the op
    takes it."""
    known = {_told(call, name, v) for call in calls for name, v in named_arguments(call).items()}
    found: Counter[str] = Counter()
    for base in sorted(calls, key=lambda call: -sum(tensor.ndim for tensor in call.tensors)):
        for name, other in _changes(base):
            told = _told(base, name, other)
            if told in known or found[name] == _MOST_PER_ARGUMENT:
                continue
            call = _with_argument(base, name, other)
            if _is_taken(call):
                known.add(told)
                found[name] += 1
                yield call


def _told(call: Call, name: str, value: Any) -> tuple[object, ...]:
    """What a value of an argument tells: a dim of a matrix is another than that of a vector."""
    return name, repr(value), call.tensors[0].ndim if call.tensors else 0


def _changes(base: Call) -> Iterator[tuple[str, Any]]:
    """Arguments of the call with other values."""
    kinds = {a.name: str(a.type) for a in _torch.function_schema(base.op).arguments}
    for name, value in named_arguments(base).items():
        if isinstance(value, torch.Tensor):
            if kinds[name] == "Optional[Tensor]":
                yield name, None
        else:
            is_number = "number" in kinds[name].lower()
            for other in _others(value, base.tensors, is_number=is_number):
                yield name, other


def _others(value: Any, tensors: Sequence[torch.Tensor], *, is_number: bool) -> Iterator[Any]:
    """Other values of an argument that may show something else."""
    shape = tuple(tensors[0].shape) if tensors else ()
    if isinstance(value, bool):
        yield not value
    elif is_number:
        yield -value if value else -2
    elif isinstance(value, int):
        yield from (dim for dim in (0, len(shape) - 1, -1, 1, -value) if dim != value)
    elif isinstance(value, float):
        yield -value if value else -0.5
    elif _are_last_sizes(value, shape):
        yield from (list(shape[at:]) for at in range(len(shape)) if shape[at:] != tuple(value))


def _are_last_sizes(value: Any, shape: tuple[int, ...]) -> bool:
    if not isinstance(value, (list, tuple)) or not all(isinstance(x, int) for x in value):
        return False
    return tuple(value) == shape[len(shape) - len(value) :]


def _with_argument(call: Call, name: str, value: Any) -> Call:
    """The call with another argument, in the form in which ops are dispatched: what can be
    positional is."""
    named = named_arguments(call) | {name: value}
    given = {*traits_of(call.op).arguments[: len(call.args)], *call.kwargs, name}
    places = [a.name for a in _torch.function_schema(call.op).arguments if not a.kwarg_only]
    last = max((at for at, place in enumerate(places) if place in given), default=-1)
    args = tuple(named[place] for place in places[: last + 1])
    kwargs = {key: named[key] for key in named if key in given and key not in places}
    return Call(call.op, args, kwargs, f"{call.origin}, {name}={value}")


def _less(size: int) -> int:
    """A size that two ranks do not share equally."""
    return size - 1 if size > 2 and size % 2 == 0 else size


def _more(size: int) -> int:
    """A size that can be cut."""
    return 4 if size == 1 else size


def _is_taken(call: Call) -> bool:
    """Does the op take the call, with a result that says something?"""
    results = call.results()
    return results is not None and not any(map(_says_nothing, results))


def _says_nothing(result: torch.Tensor) -> bool:
    """Is it no number somewhere, or the same number everywhere?"""
    if is_rounded(result.dtype) and bool(result.isnan().any()):
        return True
    return result.numel() > 1 and bool((result == result.reshape(-1)[0]).all())
