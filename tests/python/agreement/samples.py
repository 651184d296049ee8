"""Calls of every op that torch can decide, tensors as sketches."""

from __future__ import annotations

import contextlib
import functools
import random
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode

from shardprop import _torch
from shardprop.cli.coverage_table import coverage
from shardprop.verification.calls.choice import diverse
from shardprop.verification.calls.derived import derived, functional_of
from shardprop.verification.calls.opinfo import Recording, record

from .. import decomposed_calls
from ..parity import cases  # noqa: F401  (registers the builders)
from ..parity.builders import builder_for, fake_outputs, with_outs
from ..parity.dice import Dice
from ..parity.meshes import MeshKey
from ..parity.registry import Form, form_of
from ..parity.sketch import Problem, Sketch, map_leaves
from ..quiet import quiet

__all__ = ["decided_ops", "problems_of"]

_MOST = 3


@functools.cache
def decided_ops() -> tuple[OpOverload, ...]:
    """The ops of `coverage`, in its order, save those that torch's own tests register."""
    known = {str(op): op for op in _torch.all_ops()}
    return tuple(known[each.op] for each in coverage().ops if not each.op.startswith("_test."))


def problems_of(op: OpOverload) -> list[Problem]:
    """Up to three calls of an op, always the same ones; none if nothing is known that it takes."""
    return next((found for found in map(list, _sources(op)) if found), [])


def _sources(op: OpOverload) -> Iterator[Iterable[Problem]]:
    """Where calls may come from, the most telling source first."""
    recorded = _recorded()
    yield map(_problem, diverse(recorded.get(op, ()), _MOST))
    functional = functional_of(op)
    calls = diverse(recorded.get(functional, ()), _MOST) if functional is not None else []
    yield map(_problem, derived(op, calls))
    yield _written_down().get(op, ())
    yield _built(op)
    yield _taken_from_its_like(op)
    yield _with_outs(op)


@functools.cache
def _recorded() -> Recording:
    """What torch's own sample inputs call."""
    with quiet():
        wanted = {*decided_ops(), *filter(None, map(functional_of, decided_ops()))}
        return record(wanted, every_sample=True)


def _problem(call: Any) -> Problem:
    args = tuple(map_leaves(torch.Tensor, Sketch.of, arg) for arg in call.args)
    named = {name: map_leaves(torch.Tensor, Sketch.of, x) for name, x in call.kwargs.items()}
    return Problem(call.op, args, named)


@functools.cache
def _written_down() -> dict[OpOverload, list[Problem]]:
    """The calls that `decomposed_calls` lists."""

    def sketch(tensor: decomposed_calls.T) -> Sketch:
        return Sketch(tensor.shape, tensor.dtype)

    found: dict[OpOverload, list[Problem]] = {}
    for call in (*decomposed_calls.CALLS, *decomposed_calls.WITH_FACTORIES):
        args = tuple(map_leaves(decomposed_calls.T, sketch, arg) for arg in call.args)
        named = {
            name: map_leaves(decomposed_calls.T, sketch, value)
            for name, value in call.kwargs.items()
        }
        found.setdefault(call.op, []).append(Problem(call.op, args, named))
    return found


def _built(op: OpOverload) -> Iterator[Problem]:
    """Calls by the builders of the parity tests, which are for the ops with rules."""
    builder = builder_for(op)
    if builder is None:
        return
    dice = _dice(op)
    with contextlib.suppress(NotImplementedError):
        for _ in range(_MOST):
            yield builder(op, dice)


def _with_outs(op: OpOverload) -> Iterator[Problem]:
    """Calls of the functional form, with tensors for its results to be written to."""
    if form_of(op) is not Form.OUT:
        return

    def first(functional: OpOverload, _: Dice) -> Problem:
        found = problems_of(functional)
        if not found:
            raise NotImplementedError
        return found[0]

    with contextlib.suppress(NotImplementedError):
        yield with_outs(first, op, _dice(op))


def _dice(op: OpOverload) -> Dice:
    return Dice(random.Random(zlib.crc32(str(op).encode())), MeshKey((2, 2)), 64)


@functools.cache
def _calls_by_arguments() -> dict[object, list[Problem]]:
    """Recorded calls by what their op takes."""
    found: dict[object, list[Problem]] = {}
    for op, calls in _recorded().items():
        found.setdefault(_arguments(op), []).extend(map(_problem, calls[:2]))
    return found


def _arguments(op: OpOverload) -> object:
    """The types of the arguments; names, too, of all but tensors and the out tensors."""
    return tuple(
        (str(each.type), each.kwarg_only, "" if "Tensor" in str(each.type) else each.name)
        for each in _torch.function_schema(op).arguments
    )


def _taken_from_its_like(op: OpOverload) -> Iterator[Problem]:
    """Calls of ops that take the same arguments (``less`` is ``lt`` by another name), such that
    this op takes them, too."""
    taken = 0
    for like in _calls_by_arguments().get(_arguments(op), ())[:24]:
        problem = Problem(op, like.args, like.kwargs)
        if _takes(problem):
            yield problem
            taken += 1
            if taken == _MOST:
                return


def _takes(problem: Problem) -> bool:
    with quiet():
        try:
            fake_outputs(problem, FakeTensorMode(allow_fallback_kernels=False))
        except Exception:  # whatever torch refuses a call with
            return False
    return True
