"""The middle means: the op on tensors of device "meta", outside of every mode.

A fake tensor is a meta tensor that tells another device. Most ops end in the meta kernel either
way, so without the fake mode around it the kernel gives the same answer, in a tenth of the time;
for which ops that is so stands in `admitted.py`. Since no mode sees the call, nothing of it lands
in a graph either, and the call may be made while the program is traced.

Whatever is unusual is declined by raising, for the caller goes on to fake tensors on any exception.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

from .. import _torch
from .._torch import DTensorSpec, OpSchema, TensorMeta
from ..model.op_traits import traits_of
from ..model.question import OutputMeta
from ..support.cache import BoundedMap
from .results import meta_of_result

__all__ = ["DeclinedError", "forget", "output_meta"]


class DeclinedError(Exception):
    """This means does not vouch for the call; a dearer one decides it."""


_META = torch.device("meta")

# Arguments that are handed on as they are. Not among them: devices (the result would be on none
# that the operands are on), layouts that are not strided, generators, sizes that are expressions.
_NUMBERS = frozenset({bool, int, complex})
_PLAIN = frozenset({str, type(None), torch.dtype, torch.memory_format})

# Devices that the admitted ops were compared on. A torch built without CUDA cannot decide some of
# its ops for a CUDA mesh (its kernels for fake tensors fail); that error is not ours to swallow.
_DEVICES = frozenset({"cpu"} if torch.version.cuda is None else {"cpu", "cuda"})


# Python kernels take up to milliseconds. torch keeps their answers too, under much the same key.
# Floats, which may be others at every step, are no part of it: the last ones stand beside.
_known: BoundedMap[tuple[list[float], OutputMeta]] = BoundedMap("metadata", 2048)


def forget() -> None:
    """Forget all answers."""
    _known.clear()


def output_meta(schema: OpSchema) -> OutputMeta:
    """The metadata of an admitted op's outputs.

    Raises:
        Exception: anything at all; then a dearer means is to be asked, which words the error.
    """
    kwargs = schema.kwargs_schema
    if kwargs.get("pin_memory"):
        raise DeclinedError("there is no pinned memory on device meta, and kernels differ there")
    floats: list[float] = []
    arguments = _key(schema.args_schema, floats), _key(tuple(kwargs.items()), floats)
    key = id(schema.op), _torch.kernel_state(), arguments
    known = _known.get(key)
    if known is None or known[0] != floats:
        known = floats, _compute(schema)
        _known.put(key, known)
    meta = known[1]
    return [*meta] if isinstance(meta, list) else meta


def _key(item: Any, floats: list[float]) -> Hashable:
    """Equal for arguments of which a kernel sees the same; floats are added to `floats` instead."""
    kind = type(item)
    if kind is DTensorSpec:
        meta: TensorMeta = item.tensor_meta
        hash(meta)  # raises for a size that is an expression, which to compare would be a guard
        if 0 in meta.shape or item.mesh.device_type not in _DEVICES:
            # For tensors of no elements torch has its own rules of strides, here and there.
            raise DeclinedError("no elements, or a device that was not compared")
        return meta
    if kind is float:
        floats.append(item)
        return float
    if kind in _NUMBERS:
        return kind, item  # 1, 1.0 and True are equal
    if kind is list or kind is tuple:
        return kind, tuple([_key(x, floats) for x in item])
    if kind in _PLAIN or item is torch.strided:
        return item  # type: ignore[no-any-return]
    raise DeclinedError(f"an argument of type {kind}")


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
            return self._tensor(item.tensor_meta)
        if kind is list or kind is tuple:
            return kind(map(self.meta, item))
        return item

    def _tensor(self, meta: TensorMeta) -> torch.Tensor:
        known = self._known.get(meta)
        if known is not None and self._may_share:
            return known
        made = torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device=_META)
        self._known[meta] = made
        return made
