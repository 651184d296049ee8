"""Runs the calls of an op on simulated ranks, and says which rows of pending sums held for all."""

from __future__ import annotations

import itertools
import math
import re
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ... import _torch
from ..._torch import OpOverload, Partial, Placement, function_schema, meta_of
from ...model.op_traits import traits_of
from ...rules.book.book import Book
from ...rules.book.entry import Entry, operand_names
from ..calls.call import Call
from ..report import Report
from ..settings import Settings
from ..simulator.candidates import REPLICATE, of_operands
from ..simulator.compare import is_rounded
from ..simulator.execution import Executable
from ..simulator.explore import explore
from ..simulator.partials import Untestable
from ..simulator.simulation import Data, Simulation, simulations, varied
from .evidence import Evidence, Seen, are_rounded, scalars_of

__all__ = ["Proved", "of_its_kind", "prove", "seen_of"]

_SUM = Partial("sum")
# Operands of which all combinations are tried.
_OPERANDS = 8
# In the place of a 0.
_NUMBER = 3.5


@dataclass
class Proved(Report):
    """What holds of one op.

    Attributes:
        entries: The rows.
    """

    entries: list[Entry] = field(default_factory=list)


def prove(op: OpOverload, calls: Iterable[Call], deadline: float = math.inf) -> Proved:
    """Try the rows of pending sums of an op on calls of it; none that come after `deadline`, a time
    as of ``time.monotonic``, and then nothing is proved."""
    start = time.monotonic()
    report, evidence = Proved(str(op)), Evidence()
    if traits_of(op).out_arguments:
        return report
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        calls = [one for call in calls for one in (call, *_with_numbers(call))]
        for number, call in enumerate(calls):
            if time.monotonic() > deadline:
                report.error = "time limit"
                return report
            try:
                for seen in seen_of(call, number):
                    evidence.add(seen)
                report.calls += 1
            except Untestable as error:
                report.skipped[str(error)] = report.skipped.get(str(error), 0) + 1
            except Exception as error:  # whatever the op raises
                name = f"the op raises {type(error).__name__}"
                report.skipped[name] = report.skipped.get(name, 0) + 1
    report.entries = [*evidence.entries()]
    report.seconds = round(time.monotonic() - start, 3)
    return report


def of_its_kind(op: OpOverload, entry: Entry, calls: Iterable[Call]) -> Iterator[Call]:
    """The calls, and those with other numbers, for which an entry's row is said to hold."""
    book = Book.of({str(op): [entry]}, ())
    for call in calls:
        for each in (call, *_with_numbers(call)):
            args, kwargs = _torch.tree_map(_meta, (each.args, each.kwargs))
            if book.rows(op, args, kwargs):
                yield each


def _meta(value: Any) -> Any:
    return meta_of(value) if isinstance(value, torch.Tensor) else value


def seen_of(call: Call, number: int = 0, seed: int = 0) -> Iterator[Seen]:
    """What is seen of one call, on meshes of two and of three ranks.

    Raises:
        Untestable: simulated ranks cannot say, or it has tensors in lists.
        Exception: what the op raises.
    """
    names = operand_names(call.op, call.args, call.kwargs)
    executable = Executable(call)
    if names is None or len(names) != len(executable.operands) or len(names) > _OPERANDS:
        raise Untestable("tensors in lists, or too many of them")
    settings = Settings(missing=False, scripts=False, seed=seed)
    own = varied(executable)
    data = [*_random_data(executable, seed)] or own
    for ranks in settings.ranks:
        trials = simulations(executable, data, (ranks,), settings.seed)
        explored = explore(executable, trials, settings, _combinations(executable, trials[0]))
        yield Seen(
            operands=names,
            scalars=scalars_of(call),
            is_rounded=are_rounded(call),
            tried=frozenset(explored.tried),
            sound=frozenset(explored.sound),
            trials=trials,
            number=number,
        )


def _random_data(executable: Executable, seed: int) -> Iterator[Data]:
    """Random operands, twice (gradients in torch's samples are ones, of which few say anything),
    and some with a NaN, by which an op that looks at values gives itself away; those that the op
    takes."""
    chance = torch.Generator().manual_seed(seed)
    first, second = ([_random(x, chance) for x in executable.operands] for _ in range(2))
    for operands in (first, second, [*map(_with_nan, first)]):
        try:
            yield Data(operands, executable.run(operands))
        except Exception:  # the op decides what it accepts
            continue


def _random(operand: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    if not is_rounded(operand.dtype) or operand.dtype.itemsize < 2:
        return operand
    made = torch.randn(operand.shape, generator=chance, dtype=torch.float64)
    return torch.empty_like(operand).copy_(made)


def _with_nan(operand: torch.Tensor) -> torch.Tensor:
    if not is_rounded(operand.dtype) or operand.dtype.itemsize < 2 or not operand.numel():
        return operand
    changed = operand.clone()
    changed.reshape(-1)[0] = float("nan")
    return changed


def _with_numbers(call: Call) -> Iterator[Call]:
    """The call with 0 for each of its numbers in turn, or with another number for a 0: what is
    filled in, or a weight."""
    for position, argument in enumerate(function_schema(call.op).arguments):
        if not {"number", "float"} & {*re.findall(r"\w+", str(argument.type))}:
            continue
        is_given = position < len(call.args)
        value = call.args[position] if is_given else call.kwargs.get(argument.name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        other = type(value)(0 if value else _NUMBER)
        origin = f"{call.origin}, {argument.name}={other}"
        if is_given:
            args = (*call.args[:position], other, *call.args[position + 1 :])
            yield replace(call, args=args, origin=origin)
        else:
            yield replace(call, kwargs={**call.kwargs, argument.name: other}, origin=origin)


def _combinations(executable: Executable, trial: Simulation) -> Iterator[tuple[Placement, ...]]:
    """Every choice of operands that are pending sums, with parts that differ; others are whole."""
    kinds = [
        [REPLICATE, _SUM] if _may_be_pending(executable, trial, group) else [REPLICATE]
        for group in executable.groups
    ]
    for chosen in itertools.product(*kinds):
        yield of_operands(executable.groups, chosen)


def _may_be_pending(executable: Executable, trial: Simulation, group: list[int]) -> bool:
    for index in group:
        if executable.operands[index].dtype is torch.bool:
            return False
        try:
            if trial.has_equal_parts(index, (_SUM,)):
                return False
        except Untestable:
            return False
    return True
