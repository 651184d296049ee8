"""A rule that the program registered, as an entry of torch's registry."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import _core, _torch
from ._torch import OpOverload, TensorMeta
from .errors import ShardpropError
from .op_facts import op_facts
from .operands import keyword_order, operands_of
from .placeholder import ShardingPlaceholder
from .row_check import check_rows

if TYPE_CHECKING:
    from .notation import Notation

__all__ = ["RegisteredRule", "Rows", "RuleFunction"]

Rows = Sequence[Sequence[Any]]
# Takes the op, its arguments and its keyword arguments.
RuleFunction = Callable[..., Rows]


class RegisteredRule(_torch.SingleDimStrategyInfo):
    """What torch's registry of single-dim rules holds for an op that was registered here.

    Whoever looks there finds an entry like any other: its `func` gives torch's own code the rows
    that it can make use of. The core takes `rows`, which knows more.

    Attributes:
        op: The op.
        function: Gives the rows of a call.
        place: File and line of the registration.
        derived_from: The op that was registered, where this is a variant of it.

    `takes_outputs`: the function takes the metadata of the outputs too, and finds it out by itself
    where it is not given.
    """

    def __init__(
        self,
        op: OpOverload,
        function: RuleFunction,
        place: str,
        *,
        allow_uneven_sharding: bool = False,
        derived_from: OpOverload | None = None,
        takes_outputs: bool = False,
    ) -> None:
        super().__init__(func=self._rows_for_torch, allow_uneven_sharding=allow_uneven_sharding)
        self.op = op
        self.function = function
        self.place = place
        self.derived_from = derived_from
        self._takes_outputs = takes_outputs

    @property
    def notation(self) -> Notation | None:
        """The rule in the notation; None where it is a function."""
        from .notation import Notation

        notation = getattr(self.function, "__self__", None)
        return notation if isinstance(notation, Notation) else None

    def rows(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: object
    ) -> list[list[Any]]:
        """The rows of a call whose outputs have the metadata `meta`, checked, operands in the order
        in which torch counts them.

        Raises:
            ShardpropError: the rows do not fit the call.
            Exception: what the rule function raises.
        """
        metas = _metas_of(meta)
        outputs = _outputs_of(op, metas)
        rows = self._checked(op, args, kwargs, outputs, metas)
        if metas is not None and None in metas:
            # An output that is absent is so in every row, whatever a rule says of it.
            present = [meta is not None for meta in metas]
            rows = [_without_absent(row, present) for row in rows]
        return rows

    def origins(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: object
    ) -> list[str] | None:
        """For each of the `rows` the part of the rule that it follows from; None where the rule is
        a function."""
        if self.notation is None:
            return None
        return self.notation.origins(op, args, kwargs, self._outputs_given(op, _metas_of(meta)))

    def _rows_for_torch(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[list[Any]]:
        """Without the rows whose placeholders ask of sizes, which torch cannot check.

        Fewer rows are safe: they are what the op allows, not what it needs.
        """
        facts = op_facts(op)
        outputs = None if facts.any_list_return else facts.tensor_returns
        try:
            rows = self._checked(op, args, kwargs, outputs, None)
        except _core.Unsupported:  # the notation, where it would have to compare expressions
            return []
        return [row for row in rows if not any(map(_is_constrained, row))]

    def _checked(
        self,
        op: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outputs: int | None,
        metas: Sequence[TensorMeta | None] | None,
    ) -> list[list[Any]]:
        given = self._outputs_given(op, metas)
        more = {} if given is None else {"outputs": given}
        try:
            rows = self.function(op, args, kwargs, **more)
        except _core.Unsupported:
            raise
        except Exception as error:
            note = f"In the sharding rule of {op}, registered at {self.place}."
            if sys.version_info >= (3, 11):
                error.add_note(note)
                raise
            if isinstance(error, ShardpropError):  # it says of which op
                raise
            raise ShardpropError(f"{op}: {error!r}. {note}") from error
        operands = operands_of(op, args, kwargs)
        check_rows(op, rows, operands, outputs, metas)
        order = keyword_order(op, kwargs) if kwargs else None
        if order is None:
            return [[*row] for row in rows]
        return [_reordered(row, order) for row in rows]

    def _outputs_given(
        self, op: OpOverload, metas: Sequence[TensorMeta | None] | None
    ) -> Sequence[Any] | None:
        """What the function is told of the outputs, if it takes that."""
        if not self._takes_outputs or metas is None:
            return None
        return [metas] if op_facts(op).any_list_return else metas


def _without_absent(row: Sequence[Any], present: Sequence[bool]) -> list[Any]:
    outputs = [cell if here else None for cell, here in zip(row, present, strict=False)]
    return [*outputs, *row[len(outputs) :]]


def _reordered(row: Sequence[Any], order: Sequence[int]) -> list[Any]:
    """The row with its last cells, those of keyword operands, in another order."""
    first = len(row) - len(order)
    return [*row[:first], *(row[first + place] for place in order)]


def _is_constrained(cell: object) -> bool:
    return isinstance(cell, ShardingPlaceholder) and cell.is_constrained


def _metas_of(meta: Any) -> Sequence[TensorMeta | None] | None:
    if meta is None:
        return None
    return [meta] if isinstance(meta, TensorMeta) else list(meta)


def _outputs_of(op: OpOverload, metas: Sequence[TensorMeta | None] | None) -> int:
    facts = op_facts(op)
    if facts.any_list_return and metas is not None:
        return len(metas)
    return facts.tensor_returns
