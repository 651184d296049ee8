"""What a rule's text means, as the notation itself compiles it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import _torch
from ...rules.notation.rule_text import Notation
from ..calls.call import Call

__all__ = ["rows_of_text"]


def rows_of_text(text: str) -> Callable[[Call, Sequence[Any]], list[Sequence[Any]]]:
    """A function from a call and its outputs to the rows of the rule, outputs first."""
    notation = Notation(text)

    def rows(call: Call, outputs: Sequence[Any]) -> list[Sequence[Any]]:
        return list(
            notation.rows(
                call.op,
                tuple(_meta(value) for value in call.args),
                {name: _meta(value) for name, value in call.kwargs.items()},
                outputs=[_meta(value) for value in outputs],
            )
        )

    return rows


def _meta(value: Any) -> Any:
    """Metadata in the place of tensors."""
    if isinstance(value, torch.Tensor):
        return _torch.TensorMeta(value.shape, value.stride(), value.dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_meta, value))
    return value
