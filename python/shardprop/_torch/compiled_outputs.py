"""What compiled code returns, made DTensors without torch's constructors."""

from __future__ import annotations

from typing import Any

from .held_functions import HeldFunction
from .op_outputs import wrapped
from .placements import are_plain
from .specs import default_shard_order, make_spec
from .types import PLAIN_TENSORS, DTensor, TensorMeta

__all__ = ["COMPILED_OUTPUTS"]

_held = HeldFunction(DTensor.__tensor_unflatten__)


def _unflatten(
    inner_tensors: Any,
    flatten_spec: Any,
    outer_size: Any,
    outer_stride: Any,
    plain_tensors: Any = PLAIN_TENSORS,
    are_plain: Any = are_plain,
    meta: Any = TensorMeta,
    make_spec: Any = make_spec,
    default_order: Any = default_shard_order,
    wrapped: Any = wrapped,
    otherwise: Any = _held.torchs,
) -> Any:
    # While a graph is made, the tensors are not plain.
    if (
        flatten_spec is not None
        and type(local := inner_tensors["_local_tensor"]) in plain_tensors
        and type(placements := flatten_spec[0]) is tuple
        and are_plain(placements)
        and flatten_spec[2] == default_order(placements)
    ):
        _, old_meta, _, requires_grad = flatten_spec
        whole = meta(outer_size, outer_stride, old_meta.dtype)
        spec = make_spec(inner_tensors["device_mesh"], placements, whole)
        return wrapped(local, spec, requires_grad)
    return otherwise(inner_tensors, flatten_spec, outer_size, outer_stride)


# torch.compile may hold on to it.
COMPILED_OUTPUTS = _held.with_code_of(_unflatten)
