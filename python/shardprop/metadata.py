"""The metadata of an op's outputs: torch's way to it, with less around it.

torch runs the op on fake tensors, and so do we, for shapes, strides, dtypes and errors must be its
own. But torch makes a new fake mode for every op (which records the stack), makes every operand by
a call through that mode, and keeps every call in a cache that takes longer to fill than the call
itself takes. `mm` for the first time: 1.7 ms with all that, 0.4 ms without.
"""

from __future__ import annotations

from typing import Any

import torch

from . import _core, _torch_fakes
from ._torch import DTensorSpec, OpSchema, TensorMeta
from ._torch_fakes import FakeTensorMode
from .engine import OutputMeta

__all__ = ["output_meta"]


def output_meta(schema: OpSchema) -> OutputMeta:
    """The metadata of an op's outputs, as torch computes it.

    Raises:
        _core.Unsupported: an operand without metadata.
        Exception: what the op itself raises on such operands.
    """
    if _torch_fakes.may_be_symbolic():
        return _torch_fakes.torch_output_meta(schema)  # type: ignore[no-any-return]
    if schema.op is torch.ops.aten.equal.default:
        return None  # its answer depends on the data, which a fake tensor does not have
    with _torch_fakes.fake_mode() as mode:
        operands = _Operands(mode, may_share=not schema.op._schema.is_mutable)
        args = operands.fake(schema.args_schema)
        kwargs = {name: operands.fake(value) for name, value in schema.kwargs_schema.items()}
        out = schema.op(*args, **kwargs)
    if isinstance(out, tuple):
        return tuple(map(_meta_of, out))
    return list(map(_meta_of, out)) if isinstance(out, list) else _meta_of(out)


class _Operands:
    """Makes fake tensors for specs. Specs alike share one where the op writes into none: many a
    list has hundreds of them."""

    def __init__(self, mode: FakeTensorMode, may_share: bool) -> None:
        self._mode = mode
        self._may_share = may_share
        self._known: dict[tuple[TensorMeta, str], torch.Tensor] = {}

    def fake(self, item: Any) -> Any:
        """The same with fake tensors in place of specs."""
        if isinstance(item, DTensorSpec):
            return self._tensor(item)
        if type(item) in (tuple, list):
            return type(item)(map(self.fake, item))
        return item

    def _tensor(self, spec: DTensorSpec) -> torch.Tensor:
        if spec.tensor_meta is None:
            raise _core.Unsupported("operand without tensor metadata")
        key = spec.tensor_meta, spec.mesh.device_type
        if not self._may_share or key not in self._known:
            self._known[key] = _torch_fakes.fake_tensor(self._mode, *key)
        return self._known[key]


def _meta_of(item: object) -> TensorMeta | None:
    if not isinstance(item, torch.Tensor):
        return None
    return TensorMeta(item.shape, item.stride(), item.dtype)
