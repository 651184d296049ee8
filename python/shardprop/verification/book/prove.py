"""Runs the calls of an op on simulated ranks, and says which rows of pending sums held for all."""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import torch

from ..._torch import OpOverload, function_schema, tree_leaves, tree_map
from ...model.op_traits import traits_of
from ...rules.book.entry import Entry, is_zero, operand_names
from ..calls.call import Call, is_plain
from ..report import Report
from ..simulator.partials import Untestable
from .claims import Claims
from .trial import Trial, modes_of, numbers_of

__all__ = ["Proved", "may_have_rows", "prove", "with_other_numbers", "with_other_sizes"]

# What these make differs from an operand by less than rounding, and means the difference.
_BELOW_ROUNDING = frozenset({"aten::nextafter", "aten::nextafter_", "prims::nextafter"})
# In the place of a 0: some arguments are to be parts of 1.
_NUMBERS = (0.5, 3.5)
# Reductions, paddings and interpolations that ops have; some compute nonsense for others.
_MODES = frozenset(range(3))
# Calls with the same choice of operands and flags of which a size is doubled.
_DOUBLED = 3


@dataclass
class Proved(Report):
    """What holds of one op.

    Attributes:
        entries: The rows.
    """

    entries: list[Entry] = field(default_factory=list)


def may_have_rows(op: OpOverload) -> bool:
    """May it be linear at all? What draws random numbers, or writes them into an ``out=`` argument,
    is not, whatever a call of it that draws none shows."""
    return not (
        traits_of(op).out_arguments
        or torch.Tag.nondeterministic_seeded in op.tags
        or function_schema(op).name in _BELOW_ROUNDING
    )


def prove(op: OpOverload, calls: Iterable[Call], deadline: float = math.inf) -> Proved:
    """Try the rows of pending sums of an op on calls of it; none that come after `deadline`, a time
    as of ``time.monotonic``, and then nothing is proved."""
    start = time.monotonic()
    report, claims = Proved(str(op)), Claims()
    if not may_have_rows(op):
        return report
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for call in with_other_numbers(calls):
            if time.monotonic() > deadline:
                report.error = "time limit"
                return report
            try:
                claims.put_to(Trial(call))
                report.calls += 1
            except Untestable as error:
                report.skipped[str(error)] = report.skipped.get(str(error), 0) + 1
            except Exception as error:  # whatever the op raises
                name = f"the op raises {type(error).__name__}"
                report.skipped[name] = report.skipped.get(name, 0) + 1
    report.entries = [*claims.entries()]
    report.seconds = round(time.monotonic() - start, 3)
    return report


def with_other_numbers(calls: Iterable[Call]) -> Iterator[Call]:
    """The calls, each also with one of its flags turned over, or with another mode; and all of
    these with 0 for one of their numbers, or with other numbers for a 0 or for none: what is filled
    in, or a weight."""
    for given in calls:
        flags = [(name, value) for name, value in numbers_of(given) if isinstance(value, bool)]
        others: list[tuple[str, int]] = [(name, not value) for name, value in flags]
        others += [(name, mode) for name, value in modes_of(given) for mode in _MODES - {value}]
        for call in (given, *(_with(given, name, other) for name, other in others)):
            yield call
            for name, value in numbers_of(call):
                if value is None:
                    yield from (_with(call, name, number) for number in (0.0, _NUMBERS[0]))
                elif is_zero(value):
                    yield from (_with(call, name, type(value)(number)) for number in _NUMBERS)
                elif isinstance(value, (int, float)) and not isinstance(value, bool):
                    yield _with(call, name, type(value)(0))


def with_other_sizes(calls: Iterable[Call]) -> Iterator[Call]:
    """The calls; and the first few with each choice of operands and flags also with a size doubled.

    That is doubled in tensors wherever they have it, and in tensors and in arguments that are this
    number. (Of many an op torch has samples of one size alone.)
    """
    met: Counter[Hashable] = Counter()
    for call in calls:
        yield call
        leaves = tree_leaves((call.args, call.kwargs))
        flags = tuple(leaf for leaf in leaves if isinstance(leaf, bool))
        kind = operand_names(call.op, call.args, call.kwargs), flags
        is_thin = any(min(tensor.shape, default=1) < 2 for tensor in call.tensors[:1])
        if is_thin or met[kind] == _DOUBLED or not all(map(is_plain, call.tensors)):
            continue
        met[kind] += 1
        sizes = {size for tensor in call.tensors for size in tensor.shape}
        for size in sorted(sizes - {1}):
            larger = call.with_tensors(functools.partial(_doubled, size), f", {size} doubled")
            yield larger
            if any(type(leaf) is int and leaf == size for leaf in leaves):
                yield larger.with_arguments(
                    functools.partial(tree_map, functools.partial(_doubled_number, size))
                )


def _doubled(size: int, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.repeat([2 if each == size else 1 for each in tensor.shape])


def _doubled_number(size: int, value: object) -> object:
    return 2 * size if type(value) is int and value == size else value


def _with(call: Call, name: str, value: float) -> Call:
    origin = f"{call.origin}, {name}={value}"
    position = [argument.name for argument in function_schema(call.op).arguments].index(name)
    if position < len(call.args):
        args = (*call.args[:position], value, *call.args[position + 1 :])
        return replace(call, args=args, origin=origin)
    return replace(call, kwargs={**call.kwargs, name: value}, origin=origin)
