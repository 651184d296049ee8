"""Calls of ops as the cost model is asked about them: with metadata in the place of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor._dtensor_spec import TensorMeta
from torch.utils._python_dispatch import TorchDispatchMode

from shardprop.cost.compute import Work, work_of

aten = torch.ops.aten


class Recorded(NamedTuple):
    """One call."""

    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> TensorMeta:
    """Of a contiguous tensor."""
    tensor = torch.empty(shape, dtype=dtype, device="meta")
    return TensorMeta(tensor.shape, tensor.stride(), dtype)


def metas(value: Any) -> Any:
    """The value with metadata in the place of tensors."""
    if isinstance(value, torch.Tensor):
        return TensorMeta(value.shape, value.stride(), value.dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(map(metas, value))
    return value


def called(op: Any, *args: Any, **kwargs: Any) -> Recorded:
    """A call on real (or meta) tensors, with the outputs that it gives."""
    outputs = op(*args, **kwargs)
    return Recorded(op, metas(args), {k: metas(v) for k, v in kwargs.items()}, metas(outputs))


def work_in(call: Recorded) -> Work:
    return work_of(call.op, call.args, call.kwargs, call.outputs)


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Recorded] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        recorded_args = metas(args), {k: metas(v) for k, v in (kwargs or {}).items()}
        outputs = func(*args, **(kwargs or {}))
        self.calls.append(Recorded(func, *recorded_args, metas(outputs)))
        return outputs


def recorded(run: Callable[[], object]) -> list[Recorded]:
    """The ops that a function calls below autograd."""
    with _Recorder() as recorder:
        run()
    return recorder.calls
