"""One comparison: torch's metadata of a call's outputs, and ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import TensorMeta
from torch.distributed.tensor._op_schema import OpSchema

from shardprop.metadata import meta_tensors, output_meta

from ..parity.opinfo_recorder import RecordedCall
from .calls import schema_of
from .contexts import Context

__all__ = ["Answer", "answer_of", "by_meta_tensors", "ours", "same", "torchs", "without_cuda"]


@dataclass(frozen=True)
class Answer:
    """Metadata with the types of its containers, or the type and words of an error."""

    value: object
    error: tuple[type, str] | None = None

    def __str__(self) -> str:
        return f"{self.error[0].__name__}: {self.error[1]}" if self.error else repr(self.value)


def answer_of(ask: Callable[[], object]) -> Answer:
    try:
        return Answer(_with_types(ask()))
    except Exception as error:
        return Answer(None, (type(error), str(error)))


def torchs(call: RecordedCall, context: Context) -> Answer:
    propagator = DTensor._op_dispatcher.sharding_propagator
    return _asked(propagator._propagate_tensor_meta_non_cached, call, context)


def ours(call: RecordedCall, context: Context) -> Answer:
    return _asked(output_meta, call, context)


def by_meta_tensors(call: RecordedCall, context: Context) -> Answer:
    """From the op on meta tensors, admitted or not."""
    return _asked(meta_tensors.output_meta, call, context)


def same(answer: Answer, expected: Answer) -> bool:
    return answer == expected


def without_cuda(answer: Answer) -> bool:
    """Is this a torch built without CUDA that fails to make a fake tensor of it?"""
    return answer.error is not None and "not linked with support for cuda" in answer.error[1]


def _asked(means: Callable[[OpSchema], object], call: RecordedCall, context: Context) -> Answer:
    schema = schema_of(call, context.device)
    with context.entered():
        return answer_of(lambda: means(schema))


def _with_types(meta: object) -> object:
    if isinstance(meta, TensorMeta):
        shape, stride = meta.shape, meta.stride
        kinds = {*map(type, shape), *map(type, stride)}
        assert kinds <= {int, torch.SymInt}, kinds
        return (type(meta), type(shape), tuple(shape), type(stride), tuple(stride), meta.dtype)
    if isinstance(meta, (tuple, list)):
        return (type(meta), *map(_with_types, meta))
    return meta
