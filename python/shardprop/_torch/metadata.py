"""Metadata of an op's outputs, as torch computes and checks it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.distributed.tensor import _sharding_prop as _prop

from .propagation import propagator
from .symbolic import DataDependentError
from .types import OpSchema

# What an op raises on fake tensors whose values it would have to know.
VALUES_NEEDED = (DataDependentOutputException, DynamicOutputShapeException, DataDependentError)


def validate_meta_count(schema: OpSchema, meta: object) -> None:
    """torch's check that the metadata has as many outputs as the op.

    Raises:
        AssertionError: torch's own.
    """
    _prop._validate_tensor_meta_count(schema, meta)  # type: ignore[arg-type]


def torch_output_meta(schema: OpSchema) -> Any:
    """The metadata of an op's outputs, computed by torch."""
    return propagator()._propagate_tensor_meta_non_cached(schema)


def fake_mode_lock() -> AbstractContextManager[Any]:
    """What torch holds while it uses a fake mode: nothing, unless a test has put a lock there."""
    return _prop.ShardingPropagator._fake_mode_lock
