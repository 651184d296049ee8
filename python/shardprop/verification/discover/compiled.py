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
        asked = call.with_arguments(as_meta)
        metas = list(map(as_meta, outputs))
        return list(notation.rows(call.op, asked.args, asked.kwargs, outputs=metas))

    return rows
