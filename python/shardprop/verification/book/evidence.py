"""What was seen of an op's calls, and the rows that hold for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..._torch import Partial, Placement, Replicate, function_schema
from ...rules.book.entry import Entry, Scalar, are_equal, is_scalar
from ..calls.call import Call
from ..simulator.compare import is_rounded
from ..simulator.partials import Untestable
from ..simulator.simulation import Row, Simulation

__all__ = ["Evidence", "Seen", "are_rounded", "scalars_of"]

# As many calls as a row has to hold for at least.
_CALLS = 2


@dataclass(frozen=True)
class Seen:
    """One call on a mesh of one dim.

    Attributes:
        operands: The names of the arguments that are tensors.
        scalars: Its other arguments that are numbers, flags or text, defaults among them.
        is_rounded: Are all operands floating-point or complex numbers, flags aside?
        tried: Placements of the operands that the op was run on.
        sound: The rows that held and say something of this call.
        trials: The call's data on the ranks.
        number: Which call it is.
    """

    operands: tuple[str, ...]
    scalars: dict[str, Scalar]
    is_rounded: bool
    tried: frozenset[tuple[Placement, ...]]
    sound: frozenset[Row]
    trials: Sequence[Simulation]
    number: int

    def contradicts(self, row: Row) -> bool:
        """Does the row not hold for the call? (Where results are zero, another one says more, and
        it is not among the sound ones.)"""
        if row in self.sound or row.inputs not in self.tried:
            return False
        try:
            return any(trial.mismatch([row]) is not None for trial in self.trials)
        except Untestable:
            return False


def scalars_of(call: Call) -> dict[str, Scalar]:
    """Numbers that are 0, flags, and text among the arguments, by name, defaults too: what a row
    may depend on. Of other numbers, those of dims among them, too few are tried."""
    found: dict[str, Scalar] = {}
    for position, argument in enumerate(function_schema(call.op).arguments):
        value: Any = argument.default_value
        if position < len(call.args):
            value = call.args[position]
        elif argument.name in call.kwargs:
            value = call.kwargs[argument.name]
        is_dim = "int" in str(argument.type)
        is_told = value is None or isinstance(value, (bool, str))
        if is_told or (is_scalar(value) and value == 0 and not is_dim):
            found[argument.name] = value
    return found


class _Condition(NamedTuple):
    """Which calls a row holds for.

    Attributes:
        argument: An argument that has to have a value; None: any call.
        value: The value.
        is_rounded: Only for floating-point and complex numbers?
    """

    argument: str | None = None
    value: Scalar = None
    is_rounded: bool = False

    def takes(self, seen: Seen) -> bool:
        """Is a call among them?"""
        if self.is_rounded and not seen.is_rounded:
            return False
        if self.argument is None:
            return True
        scalars = seen.scalars
        return self.argument in scalars and are_equal(scalars[self.argument], self.value)


class Evidence:
    """What was seen of one op."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], list[Seen]] = {}

    def add(self, seen: Seen) -> None:
        """Take note of a call."""
        self._seen.setdefault(seen.operands, []).append(seen)

    def entries(self) -> Iterator[Entry]:
        """The rows that hold for all calls of a kind, by the widest kind there is."""
        for operands, calls in self._seen.items():
            rows = sorted(
                {row for seen in calls for row in seen.sound if _is_of_sums(row)}, key=str
            )
            for row in rows:
                entry = _entry(operands, row, calls)
                if entry is not None:
                    yield entry


def _entry(operands: tuple[str, ...], row: Row, calls: Sequence[Seen]) -> Entry | None:
    """The row with the widest condition under which it always held; None: there is none."""
    for condition in _conditions(row, calls):
        kind = [seen for seen in calls if condition.takes(seen)]
        held = [seen for seen in kind if row in seen.sound]
        if len({seen.number for seen in held}) < _CALLS:
            continue
        if not any(seen.contradicts(row) for seen in kind):
            return Entry(
                operands=operands,
                inputs=row.inputs,
                outputs=row.outputs,
                argument=condition.argument,
                value=condition.value,
                is_rounded=condition.is_rounded,
                calls=len({seen.number for seen in held}),
                runs=sum(trial.runs for seen in held for trial in seen.trials),
            )
    return None


def _conditions(row: Row, calls: Sequence[Seen]) -> Iterator[_Condition]:
    """From the widest on: all calls, those of rounded numbers, those with one value of a number or
    flag."""
    yield _Condition()
    yield _Condition(is_rounded=True)
    held = [seen.scalars for seen in calls if row in seen.sound]
    values = dict.fromkeys((name, value) for scalars in held for name, value in scalars.items())
    for name, value in values:
        yield _Condition(name, value)
        yield _Condition(name, value, is_rounded=True)


def _is_of_sums(row: Row) -> bool:
    """Has it pending sums and whole tensors alone, and makes something of it that is pending?"""
    placed = [p for p in (*row.inputs, *row.outputs) if p is not None]
    pending = {p.reduce_op for p in placed if type(p) is Partial}
    return (
        pending == {"sum"}
        and all(type(p) in (Partial, Replicate) for p in placed)
        and any(type(p) is Partial for p in row.outputs)
        and any(type(p) is Partial for p in row.inputs)
    )


def are_rounded(call: Call) -> bool:
    """Are all operands floating-point or complex, flags aside?"""
    dtypes = {tensor.dtype for tensor in call.tensors}
    return all(is_rounded(dtype) or str(dtype) == "torch.bool" for dtype in dtypes)
