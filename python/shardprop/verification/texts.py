"""Rows, calls and errors in words, for findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._torch import Placement
from .calls.call import Call
from .simulator.simulation import Row

__all__ = ["arguments_text", "call_text", "error_text", "row_text"]


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"


def _dtype_and_shape(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def row_text(row: Row) -> str:
    """A row as ``"S(0), R -> P(sum)"``: operands, then outputs."""
    return f"{_listed(row.inputs)} -> {_listed(row.outputs)}"


def _listed(placements: Sequence[Placement | None]) -> str:
    return ", ".join("-" if placement is None else str(placement) for placement in placements)


def call_text(call: Call) -> str:
    """A call with shapes and dtypes for tensors."""
    return f"{call.op}{arguments_text(call, _dtype_and_shape)}"


def arguments_text(call: Call, of_tensor: Callable[[torch.Tensor], str] = _shape) -> str:
    """The arguments of a call in parentheses, with the shape for a tensor or another text."""

    def text(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return of_tensor(value)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(text, value))}]"
        return repr(value)

    shown = [text(value) for value in call.args]
    shown += [f"{name}={text(value)}" for name, value in call.kwargs.items()]
    return f"({', '.join(shown)})"


def error_text(error: Exception, width: int = 200) -> str:
    """The type of an error and the first line of what it says, which may be long."""
    first = str(error).strip().partition("\n")[0]
    said = first if len(first) <= width else first[: width - 3] + "..."
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
