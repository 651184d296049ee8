"""Calls of ops that torch's sample inputs do not call: written for the validator, those of the op
without ``out=``, or made up."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves, tree_map

from shardprop.metadata.classes import FAKE_TENSORS, class_of
from shardprop.rules import torch_registry
from shardprop.verification.calls.call import Call, is_plain
from shardprop.verification.calls.derived import derived, functional_of
from shardprop.verification.calls.synthetic import made_up
from shardprop.verification.calls.written import written
from shardprop.verification.crash_isolation import Lost, apart

from ..parity.opinfo_recorder import RecordedCall
from ..parity.sketch import Sketch, map_leaves

__all__ = ["written_calls"]

_MADE_UP = 6
_SECONDS = 5.0


def written_calls(recorded: Mapping[str, Sequence[RecordedCall]]) -> Iterator[RecordedCall]:
    """Of each op but the recorded ones that is decided, and whose metadata may not need fake
    tensors."""
    for op in sorted(torch_registry.ops_decided(), key=str):
        if str(op) in recorded or not _is_open(op):
            continue
        for call in _calls(op, recorded):
            if all(map(_is_sketchable, tree_leaves((call.args, call.kwargs)))):
                args, kwargs = tree_map(_sketched, (call.args, call.kwargs))
                yield RecordedCall(str(op), tuple(args), kwargs)


def _is_open(op: OpOverload) -> bool:
    found = class_of(op)
    return found.name != FAKE_TENSORS or found.reason.startswith("not compared")


def _calls(op: OpOverload, recorded: Mapping[str, Sequence[RecordedCall]]) -> list[Call]:
    calls = list(written(op, 0))
    functional = functional_of(op)
    if not calls and functional is not None:
        known = [_on_zeros(functional, call) for call in recorded.get(str(functional), ())]
        calls = list(derived(op, list(written(functional, 0)) or known))
    if calls:
        return calls

    def arguments() -> list[tuple[Any, Any]]:
        """Without the op, which cannot be sent to another process."""
        calls = itertools.islice(made_up(op, 0), _MADE_UP)
        return [(call.args, call.kwargs) for call in calls]

    try:  # a kernel may crash on what nobody ever gave it
        made = apart(arguments, time.monotonic() + _SECONDS)
    except Lost:
        return []
    return [Call(op, args, kwargs) for args, kwargs in made]


def _on_zeros(op: OpOverload, call: RecordedCall) -> Call:
    def zeros(sketch: Sketch) -> torch.Tensor:
        return torch.empty_strided(sketch.shape, sketch.stride, dtype=sketch.dtype).zero_()

    args = map_leaves(Sketch, zeros, call.args)
    kwargs = {name: map_leaves(Sketch, zeros, value) for name, value in call.kwargs.items()}
    return Call(op, args, kwargs)


def _is_sketchable(leaf: Any) -> bool:
    if isinstance(leaf, torch.Tensor):
        return is_plain(leaf)
    return not isinstance(leaf, torch.Generator)


def _sketched(value: Any) -> Any:
    return Sketch.of(value) if isinstance(value, torch.Tensor) else value
