"""What a rule's text means, as the notation itself compiles it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...rules.notation.rule_text import Notation
from ..calls.call import Call
from ..validate.claimed_rows import as_meta

__all__ = ["rows_of_text"]


def rows_of_text(text: str) -> Callable[[Call, Sequence[Any]], list[Sequence[Any]]]:
    """A function from a call and its outputs to the rows of the rule, outputs first."""
    notation = Notation(text)

    def rows(call: Call, outputs: Sequence[Any]) -> list[Sequence[Any]]:
        kwargs = {name: as_meta(value) for name, value in call.kwargs.items()}
        metas = [as_meta(value) for value in outputs]
        return list(notation.rows(call.op, tuple(map(as_meta, call.args)), kwargs, outputs=metas))

    return rows
