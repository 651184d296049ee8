"""Ops that torch refuses though an answer is provably right.

torch refuses an op if its decomposition cannot be followed, and two reasons are no fault of the op:

- A factory is called inside (``arange``, ``scalar_tensor``): no argument is a DTensor, so torch has
  no decision. But a factory gives the same tensor on every rank that calls it with the same
  arguments, so its result is Replicate. Random factories do not, and stay refused.
- torch follows decompositions from inside a DTensor call, where composite ops no longer come apart
  by themselves and may be taken for a Python decomposition into ``prims`` that has no rules.
  Followed from outside of the call, they come apart into ops with rules.

The backward of hardswish and logsigmoid fail for both reasons at once.

Every row that is found so has to pass `local_run`. With ``corrections=False`` none is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..._torch import OpOverload
from .program import Program

__all__ = ["is_factory", "is_random"]

_FACTORIES = {
    torch.ops.aten.arange.default,
    torch.ops.aten.arange.start,
    torch.ops.aten.arange.start_step,
    torch.ops.aten.eye.default,
    torch.ops.aten.eye.m,
    torch.ops.aten.full.default,
    torch.ops.aten.linspace.default,
    torch.ops.aten.logspace.default,
    torch.ops.aten.ones.default,
    torch.ops.aten.scalar_tensor.default,
    torch.ops.aten.tril_indices.default,
    torch.ops.aten.triu_indices.default,
    torch.ops.aten.zeros.default,
}


def is_factory(op: OpOverload, args: Sequence[Any]) -> bool:
    """Does the call give the same tensor wherever it runs?

    Random ones do not, and ``empty`` does not either, unless there is nothing in it.
    """
    if op is torch.ops.aten.empty.memory_format:
        return bool(args) and 0 in args[0]
    return op in _FACTORIES


def is_random(program: Program) -> bool:
    """Does it draw random numbers? Then it may differ by rank, whatever it starts from."""
    return any(torch.Tag.nondeterministic_seeded in call.op.tags for call in program.calls)
