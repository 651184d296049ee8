"""One call on simulated ranks, some of its operands being pending sums."""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterator
from typing import Any

import torch

from ..._torch import Partial, Placement, function_schema
from ...rules.book.entry import is_zero, operand_names
from ..calls.call import Call
from ..settings import Settings
from ..simulator.candidates import REPLICATE
from ..simulator.compare import is_rounded
from ..simulator.execution import Executable
from ..simulator.partials import Untestable
from ..simulator.simulation import Data, Row, simulations

__all__ = ["Trial", "modes_of", "numbers_of"]

_SUM = Partial("sum")
# Operands of which all combinations are tried.
_OPERANDS = 8
# A function that is linear nearby need not be far away, where an activation has its bends.
_FAR = 1e6
_MODE = re.compile("mode|reduction|normalization")


class Trial:
    """One call on two and on three ranks, each with several random operands.

    Args:
        call: The call.
        seed: Of every random number.

    Attributes:
        call: The call.
        operands: The names of the arguments that are tensors.
        zeros: Those of the numbers among the arguments that are 0.
        key: What tells calls apart: sizes, dtypes, and arguments that are no tensors.
        runs: How often the op is run for one row.

    Raises:
        Untestable: simulated ranks cannot say, or it has tensors in lists.
        Exception: what the op raises.
    """

    def __init__(self, call: Call, seed: int = 0) -> None:
        executable = Executable(call)
        names = operand_names(call.op, call.args, call.kwargs)
        if names is None or len(names) != len(executable.operands) or len(names) > _OPERANDS:
            raise Untestable("tensors in lists, or too many of them")
        if any(not operand.numel() for operand in executable.operands):
            raise Untestable("an operand without elements")
        self.call = call
        self.operands = names
        self.zeros = tuple(name for name, value in numbers_of(call) if is_zero(value))
        self.key: Hashable = _key(call)
        self._executable = executable
        self._random = [*_random_data(executable, seed)]
        data = self._random or [Data(executable.operands, executable.run(executable.operands))]
        self._simulations = [
            simulation
            for ranks in Settings().ranks
            for simulation in simulations(executable, data, (ranks,), seed)
        ]
        self.runs = sum(simulation.sizes[0] for simulation in self._simulations)

    def inputs(self) -> Iterator[tuple[Placement, ...]]:
        """Every choice of operands that are pending; others are whole, and flags and integers."""
        kinds = [
            (REPLICATE, _SUM) if is_rounded(operand.dtype) else (REPLICATE,)
            for operand in self._executable.operands
        ]
        return (chosen for chosen in itertools.product(*kinds) if _SUM in chosen)

    def outputs(self) -> Iterator[tuple[Placement | None, ...]]:
        """Likewise of the outputs; None for one that is absent."""
        kinds = [
            (None,)
            if made is None
            else (REPLICATE, _SUM)
            if is_rounded(made.dtype)
            else (REPLICATE,)
            for made in self._simulations[0].expected.outputs
        ]
        return (chosen for chosen in itertools.product(*kinds) if _SUM in chosen)

    def refutes(self, inputs: tuple[Placement, ...], outputs: tuple[Placement | None, ...]) -> bool:
        """Does the row not hold, or can nobody say?"""
        rows = [Row(outputs, inputs)]
        try:
            return any(each.mismatch(rows) is not None for each in self._simulations)
        except Untestable:
            return True

    def tells(self, inputs: tuple[Placement, ...]) -> bool:
        """Does it say something for a row that it holds? Where a tensor has one element along some
        dim much is linear that is not; so is what gives the same for all operands; and a call that
        was made up may be one that nobody makes."""
        if self.call.is_made_up:
            return False
        pending = [at for at, placement in enumerate(inputs) if placement == _SUM]
        shapes = [self._executable.operands[at].shape for at in pending]
        if len(self._random) < 2 or any(not shape or min(shape) < 2 for shape in shapes):
            return False
        first, second = (data.expected.outputs for data in self._random[:2])
        return all(
            a is None or b is None or (bool(a.isfinite().all()) and not torch.equal(a, b))
            for a, b in zip(first, second, strict=True)
            if a is None or is_rounded(a.dtype)
        )


def numbers_of(call: Call) -> Iterator[tuple[str, Any]]:
    """The arguments that are numbers and no sizes or dims, or flags, by name, defaults among
    them."""
    for name, kind, value in _arguments(call):
        if {"number", "float", "bool"} & {*re.findall(r"\w+", kind)}:
            yield name, value


def modes_of(call: Call) -> Iterator[tuple[str, Any]]:
    """The arguments that say by an integer which of several functions an op is, likewise."""
    for name, kind, value in _arguments(call):
        if kind == "int" and _MODE.search(name):
            yield name, value


def _arguments(call: Call) -> Iterator[tuple[str, str, Any]]:
    """Per argument its name, its type in the schema, and its value."""
    for position, argument in enumerate(function_schema(call.op).arguments):
        default = call.kwargs.get(argument.name, argument.default_value)
        value = call.args[position] if position < len(call.args) else default
        yield argument.name, str(argument.type), value


def _key(call: Call) -> Hashable:
    tensors = tuple((tuple(tensor.shape), tensor.dtype) for tensor in call.tensors)
    others = call.with_tensors(lambda tensor: torch.zeros(()))
    return tensors, repr((others.args, others.kwargs))


def _random_data(executable: Executable, seed: int) -> Iterator[Data]:
    """Random numbers and flags, twice (gradients in torch's samples are ones, of which few say
    anything), some with other integers (of which an index may have each once), large ones, and some
    with a NaN, by which an op that looks at values gives itself away; those that the op takes."""
    chance = torch.Generator().manual_seed(seed)
    first, second = ([_random(x, chance) for x in executable.operands] for _ in range(2))
    others = [_other_integers(x, chance) for x in first]
    far = [x * _FAR if _is_random(x) else x for x in second]
    for operands in (first, second, others, far, [*map(_with_nan, first)]):
        try:
            yield Data(operands, executable.run(operands))
        except Exception:  # the op decides what it accepts
            continue


def _is_random(operand: torch.Tensor) -> bool:
    return is_rounded(operand.dtype) and operand.dtype.itemsize >= 2


def _random(operand: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    if operand.dtype is torch.bool:
        return torch.rand(operand.shape, generator=chance) < 0.5
    if not _is_random(operand):
        return operand
    made = torch.randn(operand.shape, generator=chance, dtype=torch.float64)
    return torch.empty_like(operand).copy_(made)


def _other_integers(operand: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """Integers between the least and the largest that are there."""
    if is_rounded(operand.dtype) or operand.dtype is torch.bool:
        return operand
    least, most = int(operand.min()), int(operand.max())
    made = torch.randint(least, most + 1, operand.shape, generator=chance)
    return torch.empty_like(operand).copy_(made)


def _with_nan(operand: torch.Tensor) -> torch.Tensor:
    if not _is_random(operand):
        return operand
    changed = operand.clone()
    changed.reshape(-1)[0] = float("nan")
    return changed
