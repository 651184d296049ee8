"""The calls of an op, each tried on ranks: what a rule has to explain."""

from __future__ import annotations

import functools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ... import _torch
from ..._torch import OpOverload
from ..calls.call import Call, tensors_in
from ..texts import arguments_text
from .observation import Observation
from .row_trials import SimulatedCall
from .rows import Row, essential, placement_of
from .slots import Signature, row_of, signature_of, tensors_by_slot

__all__ = ["Evidence", "gather", "named_arguments"]


@dataclass
class Evidence:
    """What was seen of an op.

    Attributes:
        op: The op overload.
        calls: The calls that were tried, by number.
        observations: What each showed, on each number of ranks.
        skipped: Calls that could not be used, counted by reason.
    """

    op: OpOverload
    calls: list[Call] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def signature(self) -> Signature:
        """The op's slots."""
        return signature_of(self.op)


def gather(
    op: OpOverload,
    calls: Iterable[Call],
    ranks: Sequence[int],
    explore: Callable[[Call, int], SimulatedCall],
    deadline: float = math.inf,
) -> Evidence:
    """Try every call on every number of ranks, until `deadline`, a time as of `time.monotonic`."""
    evidence = Evidence(op)
    for call in calls:
        if time.monotonic() > deadline:
            evidence.skipped["no time was left"] += 1
            continue
        try:
            results = call.op(*call.args, **call.kwargs)
        except Exception as error:
            evidence.skipped[f"the call raises {type(error).__name__}"] += 1
            continue
        arguments = named_arguments(call)
        tensors = tensors_by_slot(op, arguments, results)
        reason = _unusable(tensors)
        if tensors is None or reason is not None:
            evidence.skipped[reason or ""] += 1
            continue
        try:
            tried = [explore(call, count) for count in ranks]
        except Exception as error:
            evidence.skipped[str(error).partition("\n")[0] or type(error).__name__] += 1
            continue
        number = len(evidence.calls)
        evidence.calls.append(call)
        for count, found in zip(ranks, tried, strict=True):
            evidence.observations.append(_observe(number, call, arguments, tensors, count, found))
    return evidence


def _unusable(tensors: list[list[torch.Tensor]] | None) -> str | None:
    if tensors is None:
        return "a list has tensors of different numbers of dims, or gaps"
    if any(tensor.numel() == 0 for slot in tensors for tensor in slot):
        return "a tensor has no elements, so that every row holds"
    return None


def _observe(
    number: int,
    call: Call,
    arguments: dict[str, Any],
    tensors: list[list[torch.Tensor]],
    ranks: int,
    tried: SimulatedCall,
) -> Observation:
    operands = len(signature_of(call.op).operands)
    lengths = [len(slot) for slot in tensors]
    # Strided shards follow from the plain ones.
    rows = (row_of((*inputs, *outputs), lengths) for outputs, inputs in tried.rows)
    return Observation(
        number,
        arguments_text(call),
        ranks,
        operands,
        tuple(tuple(tuple(tensor.shape) for tensor in slot) for slot in tensors),
        {name: value for name, value in arguments.items() if not tensors_in(value)},
        essential(filter(None, rows), operands),
        _judge(tried, lengths, operands),
    )


def _judge(
    tried: SimulatedCall, lengths: Sequence[int], operands: int
) -> Callable[[Row], bool | None]:
    """Whether a row holds, asked of the call itself."""

    @functools.cache
    def judge(row: Row) -> bool | None:
        tensors = [cell for cell, count in zip(row, lengths, strict=True) for _ in range(count)]
        placements = [placement_of(cell) for cell in tensors]
        inputs = sum(lengths[:operands])
        return tried.holds(placements[inputs:], placements[:inputs])

    return judge


def named_arguments(call: Call) -> dict[str, Any]:
    """The arguments of a call by name, defaults included."""
    schema = _torch.function_schema(call.op).arguments
    named = {a.name: a.default_value for a in schema if a.has_default_value()}
    positional = [a.name for a in schema if not a.kwarg_only]
    return named | dict(zip(positional, call.args, strict=False)) | call.kwargs
