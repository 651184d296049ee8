"""The middle means: the op on tensors of device "meta", outside of every mode.

A fake tensor is a meta tensor that tells another device. Most ops end in the meta kernel either
way, so without the fake mode around it the kernel gives the same answer, in a tenth of the time;
for which ops that is so stands in `admitted.py`. Since no mode sees the call, nothing of it lands
in a graph either, and the call may be made while the program is traced.

Whatever is unusual is declined by raising, for the caller goes on to fake tensors on any exception.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _torch
from .._torch import DTensorSpec, OpSchema, TensorMeta
from ..model.op_traits import traits_of
from ..model.question import OutputMeta
from .known import AnswerKey, answer
from .results import meta_of_result

__all__ = ["DeclinedError", "output_meta"]


class DeclinedError(Exception):
    """This means does not vouch for the call; a dearer one decides it."""


_META = torch.device("meta")

# Devices that the admitted ops were compared on. A torch built without CUDA cannot decide some of
# its ops for a CUDA mesh (its kernels for fake tensors fail); that error is not ours to swallow.
_DEVICES = frozenset({"cpu"} if torch.version.cuda is None else {"cpu", "cuda"})


def output_meta(schema: OpSchema) -> OutputMeta:
    """The metadata of an admitted op's outputs.

    Raises:
        Exception: anything at all; then a dearer means is to be asked, which words the error.
    """
    if schema.kwargs_schema.get("pin_memory"):
        raise DeclinedError("there is no pinned memory on device meta, and kernels differ there")
    return answer(AnswerKey.of(schema, "meta tensors", _torch.kernel_state()), _compute, schema)


def _compute(schema: OpSchema) -> OutputMeta:
    operands = _Operands(may_share=not traits_of(schema.op).mutates)
    with _torch.no_mode_dispatch(), _torch.no_torch_function():
        args = [operands.meta(arg) for arg in schema.args_schema]
        kwargs = {name: operands.meta(value) for name, value in schema.kwargs_schema.items()}
        return meta_of_result(schema.op(*args, **kwargs))


class _Operands:
    """Makes meta tensors for specs. Specs alike share one where the op writes into none."""

    __slots__ = ("_known", "_may_share")

    def __init__(self, may_share: bool) -> None:
        self._may_share = may_share
        self._known: dict[TensorMeta, torch.Tensor] = {}

    def meta(self, item: Any) -> Any:
        """The same with meta tensors in place of specs."""
        kind = type(item)
        if kind is DTensorSpec:
            return self._tensor(item)
        if kind is list or kind is tuple:
            return kind(map(self.meta, item))
        return item

    def _tensor(self, spec: DTensorSpec) -> torch.Tensor:
        meta: TensorMeta = spec.tensor_meta  # type: ignore[assignment]
        known = self._known.get(meta)
        if known is not None and self._may_share:
            return known
        if 0 in meta.shape or spec.mesh.device_type not in _DEVICES:
            # For tensors of no elements torch has its own rules of strides, here and there.
            raise DeclinedError("no elements, or a device that was not compared")
        made = torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device=_META)
        self._known[meta] = made
        return made
