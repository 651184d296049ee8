"""A finding on the smallest call that still shows it: few elements, and numbers easy to read."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..calls.call import Call
from ..calls.resizing import listed_ints, resized, sizes_of
from ..simulator.execution import Executable, expected_of
from ..simulator.ranks import join
from ..simulator.simulation import Data, Row, Simulation, layouts_of

__all__ = ["Witness", "ever_smaller", "witness_of"]

# A call of so few elements shows that rows hold; of fewer they might by chance.
_FEW = 32
# Calls that are tried to find the smallest.
_MOST_TRIES = 400
_SEEDS = 3
# Digits behind the point: of elements, from whole numbers on.
_DIGITS = (0, 1, 2)


@dataclass(frozen=True)
class Witness:
    """Rows, one for each mesh dim, on operands of which every rank's part is known.

    Attributes:
        trial: The call, and what the ranks hold of its operands.
        rows: The rows.
        reason: Why they do not hold; None if they do.
    """

    trial: Simulation
    rows: tuple[Row, ...]
    reason: str | None


def witness_of(
    call: Call,
    rows: Sequence[Row],
    sizes: tuple[int, ...],
    seed: int = 0,
    local: Sequence[list[torch.Tensor]] | None = None,
) -> Witness:
    """What rows do on a call: with these local tensors of its operands, else with random parts.

    Raises:
        Untestable: simulated ranks cannot say.
        Exception: what the op raises.
    """
    executable = Executable(call)
    data = Data(executable.operands, expected_of(executable))
    keys = enumerate(layouts_of(rows)[0])
    held = None if local is None else dict(zip(keys, local, strict=True))
    trial = Simulation(executable, data, sizes, seed, held)
    return Witness(trial, tuple(rows), trial.mismatch(rows))


def ever_smaller(
    witness: Witness, is_claimed: Callable[[Witness], bool] | None = None
) -> Iterator[Witness]:
    """Witnesses that show the same on smaller and smaller calls, this one first.

    A kernel may crash on a call that nobody ever gave it.

    Args:
        witness: What is to be shown.
        is_claimed: Tells whether the rule claims the rows for a call; else it shows nothing.
    """
    yield witness
    shrinking = _Shrinking(witness, is_claimed)
    shrinking.shorten_lists()
    shrinking.simplify_numbers()
    yield shrinking.best
    while shrinking.shrink_sizes():
        shrinking.simplify_numbers()
        yield shrinking.best


class _Shrinking:
    """The best witness so far, and the ways to a better one."""

    def __init__(self, witness: Witness, is_claimed: Callable[[Witness], bool] | None) -> None:
        self.best = witness
        self._is_claimed = is_claimed
        self._tries = 0
        self._random = torch.Generator().manual_seed(0)

    @property
    def _call(self) -> Call:
        return self.best.trial.executable.call.on(self.best.trial.operands)

    def _take(
        self,
        call: Call,
        rows: Sequence[Row] | None = None,
        local: Sequence[list[torch.Tensor]] | None = None,
    ) -> bool:
        """Is this call as good a witness? Then it is the best."""
        for seed in range(1 if local else _SEEDS):
            self._tries += 1
            try:
                sizes = self.best.trial.sizes
                other = witness_of(call, rows or self.best.rows, sizes, seed, local)
                if self._is_as_good(other):
                    self.best = other
                    return True
            except Exception:  # the op or the rule refuses the call
                return False
        return False

    def _is_as_good(self, other: Witness) -> bool:
        if _kind(other.reason) != _kind(self.best.reason):
            return False
        if other.reason is None and other.trial.says_nothing():
            return False
        return self._is_claimed is None or self._is_claimed(other)

    def shorten_lists(self) -> None:
        """One tensor for each list of them."""
        executable = self.best.trial.executable
        if all(len(group) <= 1 for group in executable.groups):
            return
        kept = [group[0] for group in executable.groups]
        rows = [
            Row(row.outputs[: _outputs_of_one(row)], tuple(row.inputs[at] for at in kept))
            for row in self.best.rows
        ]
        self._take(_with_short_lists(self._call), rows)

    def shrink_sizes(self) -> bool:
        """Are there smaller sizes that do? One is changed, or two where an op ties them."""
        return any(
            self._take_resized(change)
            for together in (1, 2)
            for change in self._changes(together)
            if self._is_large() and self._tries < _MOST_TRIES
        )

    def _elements(self) -> int:
        return sum(tensor.numel() for tensor in self.best.trial.operands)

    def _is_large(self) -> bool:
        return self._elements() > (_FEW if self.best.reason is None else 1)

    def _changes(self, together: int) -> Iterator[dict[int, int]]:
        """Which sizes become which: the largest first, to the smallest first."""
        call = self._call
        listed = listed_ints([*call.args, *call.kwargs.values()])
        sizes = sorted({size for size in listed | sizes_of(call) if size > 1}, reverse=True)
        if together == 1:
            for size in sizes:
                yield from ({size: less} for less in _less(size))
        elif self._elements() > _FEW:
            for tied, size in itertools.permutations(sizes, 2):
                for less in _less(size):
                    powers = (tied * less**power // size**power for power in (1, 2, 3))
                    others = sorted({*powers, *_less(tied)} - {0})
                    yield from ({size: less, tied: other} for other in others)

    def _take_resized(self, change: dict[int, int]) -> bool:
        for wrap in (False, True):
            with contextlib.suppress(Exception):  # a size that cannot become this
                if self._take(resized(self._call, change, self._random, wrap)):
                    return True
        return False

    def simplify_numbers(self) -> None:
        """Floats of 32 bits, as few digits as do, and zeros where nothing is read."""
        self._take(self._call.with_tensors(_of_32_bits))
        any(self._take(_with_round_numbers(self._call, digits)) for digits in _DIGITS)
        operands = range(len(self.best.trial.operands))
        self._take_local(lambda _, x: x.contiguous())
        for operand in operands:  # of many only the shape is read, of all where a rank raises
            self._zero(operand)
        if not any(self._round(digits, operands) for digits in _DIGITS):
            for at in operands:
                any(self._round(digits, [at]) for digits in _DIGITS)

    def _zero(self, operand: int) -> bool:
        return self._take_local(lambda at, x: torch.zeros_like(x) if at == operand else x)

    def _round(self, digits: int, operands: Iterable[int]) -> bool:
        return self._take_local(lambda at, x: _rounded(x, digits) if at in operands else x)

    def _take_local(self, change: Callable[[int, torch.Tensor], torch.Tensor]) -> bool:
        """Change what every rank holds, and with it the whole tensors."""
        trial = self.best.trial
        local, whole = [], []
        for at, layout in enumerate(layouts_of(self.best.rows)[0]):
            local.append([change(at, x) for x in trial.local(at, layout)])
            shape = trial.operands[at].shape
            whole.append(join(local[-1], layout, trial.sizes, shape))
        return self._take(self._call.on(whole), local=local)


def _kind(reason: str | None) -> object:
    """What is the same of two reasons though sizes and numbers differ."""
    if reason is None:
        return None
    error = re.match(r"rank \d+(, of which a shard is empty)?: (\w+)", reason)
    if error:
        return error.groups()
    return "shape" if re.search(r"\bshape \[", reason) else "values"


def _less(size: int) -> list[int]:
    """Smaller sizes, the smallest first."""
    return [*range(1, min(size, 9)), *([size // 2] if size > 17 else [])]


def _outputs_of_one(row: Row) -> int:
    """How many outputs are left where lists have one tensor: one if they were all of a list."""
    return 1 if len(set(row.outputs)) == 1 else len(row.outputs)


def _with_short_lists(call: Call) -> Call:
    def short(value: Any) -> Any:
        is_list = isinstance(value, (list, tuple)) and any(
            isinstance(item, torch.Tensor) for item in value
        )
        return value[:1] if is_list else value

    return call.with_arguments(short)


def _of_32_bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype is torch.float64 else tensor


def _with_round_numbers(call: Call, digits: int) -> Call:
    def rounded(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(rounded, value))
        return round(value, 1 + digits) if isinstance(value, float) else value

    return call.with_arguments(rounded)


def _rounded(tensor: torch.Tensor, digits: int) -> torch.Tensor:
    if tensor.is_complex():
        parts = torch.view_as_real(tensor.resolve_conj())
        whole: torch.Tensor = torch.view_as_complex(_rounded(parts, digits))
        return whole
    if not tensor.is_floating_point():
        return tensor
    wide = tensor.double() * 10.0**digits
    away_from_zero = wide.sign() * wide.abs().ceil()
    return (away_from_zero / 10.0**digits + 0.0).to(tensor.dtype).contiguous()
