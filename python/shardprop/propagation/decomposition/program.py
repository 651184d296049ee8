"""A decomposition as data: a straight line of calls on numbered values.

Values are numbered as they come to be, the operands first, and never change: where a call writes
into a tensor (or hands one back), the tensor goes on under a new number, just as torch hangs a new
spec on the tensor object. So a walk over the calls needs no aliases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..._torch import OpOverload, TensorMeta
from ...model.question import OutputMeta

__all__ = ["Call", "Declined", "OrderMatters", "Program", "Ref", "Refused", "fill", "refs"]


class Declined(Exception):
    """We do not decide this; torch does, and words the error if there is one."""


class Refused(Declined):
    """torch refuses the op, for a call inside that it cannot decide."""


class OrderMatters(Declined):
    """Inside a decomposition another is called whose answer depends on what was asked before."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of a program, where its tensor stood among the arguments."""

    value: int


@dataclass(frozen=True, slots=True)
class Call:
    """One op that a decomposition runs.

    Attributes:
        op: The op.
        args: Positional arguments with `Ref` in place of tensors.
        kwargs: Keyword arguments, likewise.
        inputs: The values among the arguments, each once, in order.
        outputs: The values of what it returns; None where that is no tensor.
        meta: Metadata of the outputs as torch's propagation gives it.
        is_factory: It takes no tensor, and gives the same tensor on every rank.
    """

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int | None, ...]
    meta: OutputMeta
    is_factory: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """What a decomposition runs for operands of given metadata; compared by identity.

    Attributes:
        metas: Metadata of every value.
        operands: How many operands: they are the values 0 to `operands` - 1.
        calls: In the order in which they run.
        results: The values that are returned, without outputs that are absent.
    """

    metas: tuple[TensorMeta, ...]
    operands: int
    calls: tuple[Call, ...]
    results: tuple[int, ...]

    def first_uses(self, in_order: bool) -> list[list[int]]:
        """Per call the operands that no call before it uses; at last those that none uses.

        `in_order`, an operand counts as used as soon as a later one is.
        """
        left = set(range(self.operands))
        uses: list[list[int]] = []
        for call in self.calls:
            used = left.intersection(call.inputs)
            if in_order and used:
                used = {operand for operand in left if operand <= max(used)}
            uses.append(sorted(used))
            left -= used
        return [*uses, sorted(left)]


def fill(item: Any, change: Callable[[Ref], Any]) -> Any:
    """An argument with its refs replaced; lists stay lists and tuples stay tuples."""
    if isinstance(item, Ref):
        return change(item)
    if isinstance(item, (list, tuple)):
        return type(item)([fill(x, change) for x in item])
    return item


def refs(item: Any) -> list[Ref]:
    """The refs in an argument, in order."""
    if isinstance(item, Ref):
        return [item]
    if isinstance(item, (list, tuple)):
        return [ref for x in item for ref in refs(x)]
    return []
