"""A rule without some of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from .._torch import OpOverload, TensorMeta
from ..model.question import OutputMeta
from .rows_of_another import RowsOfAnother
from .rule import Rows, RowsRule

__all__ = ["Keeps", "KeptRows", "RowCall"]


class RowCall(NamedTuple):
    """A call as a rule sees it: its tensors are TensorMeta."""

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def tensors(self) -> list[TensorMeta]:
        """Those given by position."""
        return _tensors(self.args)

    def operands_of(self, row: Sequence[Any]) -> Sequence[Any]:
        """The cells of `tensors`: a row has outputs before them, and keyword tensors after."""
        end = len(row) - len(_tensors(self.kwargs.values()))
        return row[end - len(self.tensors) : end]


def _tensors(arguments: Iterable[Any]) -> list[TensorMeta]:
    """Those among arguments, lists of them included."""
    # (A TensorMeta is a tuple itself.)
    lists = (each if type(each) in (list, tuple) else (each,) for each in arguments)
    return [item for each in lists for item in each if isinstance(item, TensorMeta)]


# Does a row hold for a call? Its cells are outputs and operands.
Keeps = Callable[[Sequence[Any], RowCall], bool]


class KeptRows(RowsOfAnother):
    """The rows of a rule that hold.

    Args:
        rule: All rows.
        keeps: Which of them hold; None: all.
        accepts: A filter over whole strategies, beside that of the rule.
        leaves_written: Does what the op writes into have to stay?
    """

    def __init__(
        self,
        rule: RowsRule,
        keeps: Keeps | None = None,
        accepts: Callable[..., bool] | None = None,
        leaves_written: bool = False,
    ) -> None:
        super().__init__(rule)
        self._keeps = keeps
        self.accepts = _both(rule.accepts, accepts)
        self.leaves_written = leaves_written or rule.leaves_written

    def rows_of(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: OutputMeta
    ) -> Rows:
        """See `RowsRule.rows_of`."""
        rows = self.rule.rows_of(op, args, kwargs, meta)
        call = RowCall(op, args, kwargs)
        return rows if self._keeps is None else [row for row in rows if self._keeps(row, call)]


def _both(
    first: Callable[..., bool] | None, second: Callable[..., bool] | None
) -> Callable[..., bool] | None:
    """A filter that accepts what both do."""
    if first is None or second is None:
        return first or second
    return lambda *strategy: first(*strategy) and second(*strategy)
