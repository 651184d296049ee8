"""Calls to compare: as torch's samples make them, and changed in layout and dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.tensor import Replicate
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema

from ..parity.opinfo_recorder import RecordedCall
from ..parity.registry import find_op
from ..parity.sketch import Sketch, map_leaves, permuted

__all__ = ["VARIANTS", "changed", "schema_of", "variants"]


class Mesh:
    """All that metadata asks of a mesh: so a CUDA one needs no device."""

    ndim = 1

    def __init__(self, device_type: str) -> None:
        self.device_type = device_type


_MESHES = {device: Mesh(device) for device in ("cpu", "cuda")}


def schema_of(call: RecordedCall, device: str) -> OpSchema:
    """The call as DTensor puts it, on a mesh of such devices."""

    def spec(sketch: Sketch) -> DTensorSpec:
        meta = TensorMeta(torch.Size(sketch.shape), tuple(sketch.stride), sketch.dtype)
        mesh: Any = _MESHES[device]
        return DTensorSpec(mesh, (Replicate(),), tensor_meta=meta)

    made = changed(call, spec)
    return OpSchema(find_op(call.op), made.args, made.kwargs)


def changed(call: RecordedCall, change: Callable[[Sketch], object]) -> RecordedCall:
    """The call with every sketch replaced."""
    kwargs = {name: map_leaves(Sketch, change, value) for name, value in call.kwargs.items()}
    args = tuple(map_leaves(Sketch, change, arg) for arg in call.args)
    return RecordedCall(call.op, args, kwargs)


def _reversed(sketch: Sketch) -> Sketch:
    order = tuple(reversed(range(sketch.ndim)))
    return replace(sketch, stride=permuted(sketch.shape, order))


def _channels_last(sketch: Sketch) -> Sketch:
    if sketch.ndim not in (4, 5):
        return sketch
    order = (0, *range(2, sketch.ndim), 1)
    return replace(sketch, stride=permuted(sketch.shape, order))


def _one_row(sketch: Sketch) -> Sketch:
    return Sketch((1, *sketch.shape[1:]), sketch.dtype) if sketch.ndim > 1 else sketch


def _expanded(sketch: Sketch) -> Sketch:
    return replace(sketch, stride=(0, *sketch.stride[1:])) if sketch.ndim > 1 else sketch


def _half(sketch: Sketch) -> Sketch:
    return replace(sketch, dtype=torch.bfloat16) if sketch.dtype is torch.float32 else sketch


def _first_half(call: RecordedCall) -> RecordedCall:
    """Mixed precision: the first operand in bfloat16, the others as they are."""
    first = True

    def change(sketch: Sketch) -> Sketch:
        nonlocal first
        was_first, first = first, False
        return _half(sketch) if was_first else sketch

    return changed(call, change)


VARIANTS: dict[str, Callable[[RecordedCall], RecordedCall]] = {
    "last dim outermost": lambda call: changed(call, _reversed),
    "channels last": lambda call: changed(call, _channels_last),
    "one row": lambda call: changed(call, _one_row),
    "expanded": lambda call: changed(call, _expanded),
    "bfloat16": lambda call: changed(call, _half),
    "first operand bfloat16": _first_half,
}


def variants(call: RecordedCall) -> Iterator[RecordedCall]:
    """The call, and what differs from it among its variants."""
    seen = {str(call)}
    yield call
    for change in VARIANTS.values():
        made = change(call)
        if str(made) not in seen:
            seen.add(str(made))
            yield made
