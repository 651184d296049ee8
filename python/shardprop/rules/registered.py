"""A rule that the program registered, as an entry of torch's registry."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core, _torch
from .._torch import OpOverload, OpSchema, TensorMeta
from ..errors import ShardpropError
from ..model.op_traits import traits_of
from ..model.operands import keyword_order, operands_of
from ..model.question import NoStrategyError, OutputMeta, metas_of, question_of, staying_operands
from .notation.rule_text import Notation
from .placeholder import ShardingPlaceholder
from .places import short_path
from .row_check import check_rows
from .rule import EntryRule, Origin, Rows

__all__ = ["RegisteredRule", "RuleFunction"]

# Takes the op, its arguments and its keyword arguments.
RuleFunction = Callable[..., Rows]


class RegisteredRule(_torch.SingleDimStrategyInfo, EntryRule):
    """What torch's registry of single-dim rules holds for an op that was registered here.

    It looks like any other entry: its `func` gives torch's own code the rows that it can make use
    of. The core takes `rows_of`, which knows more.

    Attributes:
        function: Gives the rows of a call.
        registered_at: File and line of the registration.
        derived_from: The op that was registered, where this is a variant of it.

    `takes_outputs`: the function takes the metadata of the outputs too, and finds it out by itself
    where it is not given.
    """

    origin = Origin.REGISTERED
    leaves_unmovable = True

    def __init__(
        self,
        function: RuleFunction,
        registered_at: str,
        *,
        allow_uneven_sharding: bool = False,
        derived_from: OpOverload | None = None,
        takes_outputs: bool = False,
        stands_in: bool = False,
    ) -> None:
        super().__init__(func=self.rows_for_any_sizes, allow_uneven_sharding=allow_uneven_sharding)
        self.function = function
        self.registered_at = registered_at
        self.derived_from = derived_from
        self._takes_outputs = takes_outputs
        self.stands_in = stands_in

    @property
    def notation(self) -> Notation | None:
        """The rule in the notation; None where it is a function."""
        notation = getattr(self.function, "__self__", None)
        return notation if isinstance(notation, Notation) else None

    def rows_of(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: OutputMeta
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
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: OutputMeta
    ) -> list[str] | None:
        """For each of the rows the part of the rule that it follows from; None where the rule is
        a function."""
        if self.notation is None:
            return None
        return self.notation.origins(op, args, kwargs, self._outputs_given(op, _metas_of(meta)))

    def place(self, op: OpOverload) -> str:
        """File and line of the registration, and what was registered."""
        if self.notation is not None:
            how = f"register_rule({str(self.notation)!r})"
        else:
            name = getattr(self.function, "__qualname__", "a function")
            how = f"register_single_dim_rule above {name}"
        variant = "" if self.derived_from is None else f", for {self.derived_from}"
        return f"{short_path(self.registered_at)} {how}{variant}"

    def refuse(self, schema: OpSchema, declined: Exception) -> None:
        """torch's own words for rows that are malformed are bare assertions, and it moves no
        operand that has to stay without a word.

        Raises:
            ShardpropError: rows that are malformed, or none of which leaves an operand where it is
                that torch's dispatcher does not move.
        """
        if isinstance(declined, _core.RuleError):
            raise ShardpropError(f"{schema.op}: {declined}")
        staying = staying_operands(question_of(schema, None))
        if staying and isinstance(declined, NoStrategyError):
            operands = operands_of(schema.op, schema.args_schema, schema.kwargs_schema)
            names = ", ".join(repr(operands[index].name) for index in staying)
            raise ShardpropError(
                f"{schema.op}: Expected operands that the op can work on where they are, got no "
                f"row of its rule that leaves {names} there. torch moves no keyword arguments, and "
                "no operand that is written into: redistribute before the call."
            )

    def rows_for_any_sizes(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[list[Any]]:
        """Without the rows whose placeholders ask of sizes: these are what torch's own code gets,
        which cannot check them.

        Fewer rows are safe: they are what the op allows, not what it needs.
        """
        facts = traits_of(op)
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
            note = f"In the sharding rule of {op}, registered at {self.registered_at}."
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
        return [metas] if traits_of(op).any_list_return else metas


def _without_absent(row: Sequence[Any], present: Sequence[bool]) -> list[Any]:
    outputs = [cell if here else None for cell, here in zip(row, present, strict=False)]
    return [*outputs, *row[len(outputs) :]]


def _reordered(row: Sequence[Any], order: Sequence[int]) -> list[Any]:
    """The row with its last cells, those of keyword operands, in another order."""
    first = len(row) - len(order)
    return [*row[:first], *(row[first + place] for place in order)]


def _is_constrained(cell: object) -> bool:
    return isinstance(cell, ShardingPlaceholder) and cell.is_constrained


def _metas_of(meta: OutputMeta) -> Sequence[TensorMeta | None] | None:
    return None if meta is None else metas_of(meta)


def _outputs_of(op: OpOverload, metas: Sequence[TensorMeta | None] | None) -> int:
    facts = traits_of(op)
    if facts.any_list_return and metas is not None:
        return len(metas)
    return facts.tensor_returns
