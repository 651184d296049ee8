"""The metadata of an op's outputs by running it on fake tensors: what closed forms must equal."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.utils._mode_utils import no_dispatch

from ..quiet import quiet

_MODE = FakeTensorMode()
_MODE.cache_enabled = False


def _fake(item: Any) -> Any:
    if isinstance(item, DTensorSpec):
        meta = item.tensor_meta
        assert meta is not None
        with no_dispatch():
            elem = torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device="meta")
        return FakeTensor(_MODE, elem, torch.device(item.mesh.device_type))
    if type(item) in (tuple, list):
        return type(item)(map(_fake, item))
    return item


def _meta(item: object) -> TensorMeta | None:
    if not isinstance(item, torch.Tensor):
        return None
    return TensorMeta(item.shape, item.stride(), item.dtype)


def fake_meta(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As torch's propagator computes it; the exception where the op raises one."""
    try:
        with quiet(), _MODE:
            out = op(*map(_fake, args), **{name: _fake(value) for name, value in kwargs.items()})
    except Exception as error:  # an error of any kind is to be declined
        return error
    if isinstance(out, tuple):
        return tuple(map(_meta, out))
    return list(map(_meta, out)) if isinstance(out, list) else _meta(out)


def is_same(left: object, right: object) -> bool:
    """Equal, and of the same types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        assert isinstance(right, (list, tuple))
        return len(left) == len(right) and all(map(is_same, left, right))
    return left == right


def readable(item: Any) -> str:
    """A call's arguments for a message."""
    if isinstance(item, DTensorSpec):
        meta = item.tensor_meta
        assert meta is not None
        return f"{str(meta.dtype)[6:]}{list(meta.shape)} by {list(meta.stride)}"
    if isinstance(item, dict):
        return ", ".join(f"{name}={readable(value)}" for name, value in item.items())
    if isinstance(item, (list, tuple)):
        return f"({', '.join(map(readable, item))})"
    return repr(item)
