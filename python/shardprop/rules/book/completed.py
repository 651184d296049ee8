"""Rules with the rows of the rule book."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from ..._torch import OpOverload, Placement
from ...errors import ShardpropError
from ...model.question import OutputMeta, Question, metas_of
from ..follow_rule import Candidate, FollowRule
from ..kept_rows import KeptRows
from ..rows_of_another import RowsOfAnother
from ..rule import DecompositionRule, Origin, Rows, RowsRule, Rule
from .book import Book

__all__ = ["CompletedFollowing", "CompletedRows", "completed", "reads_the_book"]


class CompletedRows(RowsOfAnother):
    """The rows of a rule, and those of the book that it does not have.

    Args:
        rule: The rule.
        book: The book.
    """

    def __init__(self, rule: RowsRule, book: Book) -> None:
        super().__init__(rule)
        self._book = book

    def rows_of(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: OutputMeta
    ) -> Rows:
        """See `RowsRule.rows_of`."""
        rows = self.rule.rows_of(op, args, kwargs, meta)
        known = {tuple(row) for row in rows}
        more = self._book.rows(op, args, kwargs, metas_of(meta))
        width = len(rows[0]) if rows else 0
        return [*rows, *(row for row in more if len(row) == width and tuple(row) not in known)]


class CompletedFollowing(FollowRule):
    """The ways of a rule that follows its operands, and those in which operands that a row of the
    book takes as they are stay, on the mesh dims where they are so.

    Args:
        rule: The rule.
        book: The book.
    """

    def __init__(self, rule: FollowRule, book: Book) -> None:
        self._rule = rule
        self._book = book
        super().__init__(self._ways)

    def place(self, op: OpOverload) -> str:
        """Where the code of the rule itself is."""
        return self._rule.place(op)

    def _ways(self, question: Question) -> list[Candidate]:
        ways = self._rule.candidates(question)
        metas = metas_of(question.meta)
        rows = self._book.rows(question.op, question.args, question.kwargs, metas)
        return [*ways, *(new for way in ways for new in _with_pending(way, rows, question))]


def _with_pending(
    way: Candidate, rows: Sequence[Sequence[Placement | None]], question: Question
) -> Iterator[Candidate]:
    """The way with each row, where the operands are as it wants them."""
    moved = len(way.operands)
    if len(question.operands) != moved:
        return
    for row in rows:
        outputs, inputs = row[: len(row) - moved], row[len(row) - moved :]
        if len(outputs) != len(way.outputs):
            continue
        dims = [
            mesh_dim
            for mesh_dim, cells in enumerate(
                zip(*(spec.placements for spec in question.operands), strict=True)
            )
            if list(cells) == list(inputs)
        ]
        if dims:
            yield way._replace(
                outputs=tuple(map(functools.partial(_placed, dims), way.outputs, outputs)),
                operands=tuple(map(functools.partial(_placed, dims), way.operands, inputs)),
                costs=None,
            )


def _placed(
    dims: Sequence[int], layout: Sequence[Placement], placement: Any
) -> tuple[Placement, ...]:
    return tuple(placement if at in dims else kept for at, kept in enumerate(layout))


def completed(rule: Rule, op: OpOverload) -> Rule:
    """The rule with the book's rows of an op, if it has some.

    A program's own rule stays as it is, one of which rows are left out that do not hold, and what a
    decomposition gives.
    """
    is_whole = isinstance(rule, (RowsRule, FollowRule)) and not isinstance(
        rule, (KeptRows, DecompositionRule)
    )
    if not is_whole or rule.origin is Origin.REGISTERED or str(op) not in Book.in_force().entries:
        return rule
    return _completed(rule)


# One for each rule, for decisions are known by the rule that was asked.
@functools.lru_cache(4096)
def _completed(rule: Any) -> Rule:
    if isinstance(rule, FollowRule):
        return CompletedFollowing(rule, Book.in_force())
    return CompletedRows(rule, Book.in_force())


def reads_the_book(rules: object) -> bool:
    """Is a setting "complete", rather than "torch"?

    Raises:
        ShardpropError: it is neither.
    """
    if rules not in ("complete", "torch"):
        raise ShardpropError(f"rules: Expected 'complete' or 'torch', got {rules!r}.")
    return rules == "complete"
