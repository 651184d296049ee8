"""Rows, calls and errors in words, for findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._torch import Placement
from .calls.call import Call
from .simulator.simulation import Row

__all__ = ["call_text", "error_text", "row_text"]


def row_text(row: Row) -> str:
    """A row as ``"S(0), R -> P(sum)"``: operands, then outputs."""
    return f"{_listed(row.inputs)} -> {_listed(row.outputs)}"


def _listed(placements: Sequence[Placement | None]) -> str:
    return ", ".join("-" if placement is None else str(placement) for placement in placements)


def call_text(call: Call) -> str:
    """A call with shapes and dtypes for tensors."""
    arguments = [_text(arg) for arg in call.args]
    arguments += [f"{name}={_text(value)}" for name, value in call.kwargs.items()]
    return f"{call.op}({', '.join(arguments)})"


def error_text(error: Exception, width: int = 200) -> str:
    """The type of an error and the first line of what it says, which may be long."""
    first = str(error).strip().partition("\n")[0]
    said = first if len(first) <= width else first[: width - 3] + "..."
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)
