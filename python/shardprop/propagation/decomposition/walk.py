"""Which placements of the operands pass through a whole program without moving anything.

torch runs the decomposition anew for every combination of placements. Here an operand's placement
is chosen when the first call that uses it is reached, and a combination that fails at a call is
dropped with all that share its beginning.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..._torch import Placement
from .by_rows import DimLayout, DimLayouts
from .program import Declined, Program

__all__ = ["Passed", "walk"]

_MAX_PASSED = 100_000


class Passed(NamedTuple):
    """A combination that passes.

    Attributes:
        place: Per operand the number of its option, which orders combinations as torch does.
        layouts: Per value its layout.
    """

    place: tuple[int, ...]
    layouts: list[DimLayout | None]


Outputs = Callable[[int, tuple[DimLayout, ...]], DimLayouts | None]


class _Walk:
    def __init__(
        self,
        program: Program,
        options: Sequence[Sequence[Placement]],
        outputs: Outputs,
        in_order: bool,
    ) -> None:
        self._program = program
        self._options = [[DimLayout(p, None) for p in placements] for placements in options]
        self._outputs = outputs
        self._first_uses = program.first_uses(in_order)
        self._layouts: list[DimLayout | None] = [None] * len(program.metas)
        self._chosen = [0] * program.operands
        self.passed: list[Passed] = []

    def from_call(self, index: int) -> None:
        """Follow the program from a call on, with what is chosen so far."""
        while index < len(self._program.calls):
            if self._first_uses[index]:
                for _ in self._choices(self._first_uses[index]):
                    if self._step(index):
                        self.from_call(index + 1)
                return
            if not self._step(index):
                return
            index += 1
        for _ in self._choices(self._first_uses[index]):
            if len(self.passed) == _MAX_PASSED:
                raise Declined("too many placements pass")
            self.passed.append(Passed(tuple(self._chosen), list(self._layouts)))

    def _choices(self, operands: Sequence[int]) -> Iterator[None]:
        """Every choice of placements for the operands; once if there are none."""
        numbered = [list(enumerate(self._options[operand])) for operand in operands]
        for combination in itertools.product(*numbered):
            for operand, (number, layout) in zip(operands, combination, strict=True):
                self._chosen[operand] = number
                self._layouts[operand] = layout
            yield

    def _step(self, index: int) -> bool:
        """Do one call; False if an input would have to move."""
        call = self._program.calls[index]
        inputs = []
        for value in call.inputs:
            layout = self._layouts[value]
            if layout is None:
                raise Declined(f"{call.op} on a tensor without a spec")
            inputs.append(layout)
        outputs = self._outputs(index, tuple(inputs))
        if outputs is None:
            return False
        for out, layout in zip(call.outputs, outputs, strict=True):
            if out is not None:
                self._layouts[out] = layout
        return True


def walk(
    program: Program,
    options: Sequence[Sequence[Placement]],
    outputs: Outputs,
    in_order: bool = False,
) -> list[Passed]:
    """The combinations that pass, in torch's order: that of a product over the operands.

    Args:
        program: The decomposition.
        options: Per operand the placements to try.
        outputs: Layouts of a call's outputs for layouts of its inputs; None if one has to move.
        in_order: Ask `outputs` in the order in which torch does, which costs some pruning.

    Raises:
        Declined: a call ends the decomposition, or too many combinations pass.
    """
    ahead = _Walk(program, options, outputs, in_order)
    ahead.from_call(0)
    return sorted(ahead.passed, key=lambda passed: passed.place)
