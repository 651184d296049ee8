"""torch's own decision of an op whose output metadata is known."""

from __future__ import annotations

from typing import Any

from .. import _torch
from .._torch import OpSchema, OutputSharding

__all__ = ["torch_propagate_knowing"]


class _KnownMeta:
    """torch's propagator, save that it need not find out the output's metadata."""

    def __init__(self, prop: Any, meta: object) -> None:
        self._prop = prop
        self._meta = meta

    def __getattr__(self, name: str) -> Any:
        return getattr(self._prop, name)

    def _propagate_tensor_meta_non_cached(self, schema: OpSchema) -> object:
        return self._meta


def torch_propagate_knowing(schema: OpSchema, meta: object) -> OutputSharding:
    """torch's own propagation of an op whose output metadata is known; most of its time goes there
    on small meshes."""
    prop = _torch.propagator()
    known = _KnownMeta(prop, meta)
    return type(prop).propagate_op_sharding_non_cached(known, schema)  # type: ignore[no-any-return]
