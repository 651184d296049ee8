"""torch's own propagator."""

from __future__ import annotations

from typing import Any

from .types import DTensor, OpSchema, OutputSharding


def propagator() -> Any:
    """torch's one ShardingPropagator."""
    return DTensor._op_dispatcher.sharding_propagator


def torch_propagate(schema: OpSchema) -> OutputSharding:
    """torch's own propagation, whatever is hooked in."""
    prop = propagator()
    return type(prop).propagate_op_sharding_non_cached(prop, schema)  # type: ignore[no-any-return]
