"""Decompositions: which ops have one, and how torch traces it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._decomp import decomposition_table
from torch.distributed.tensor import _decompositions

from .cache_keys import complete_cache_key_of
from .propagation import propagator
from .types import DeviceMesh, OpOverload


def has_decomposition(op: OpOverload) -> bool:
    """Would torch trace a decomposition for the op if it had no rule?"""
    return _decompositions.DecompShardingStrategy.has_decomp(op)


# The ones that torch walks a decomposition's arguments and results with.
decomposition_tree_map: Callable[[Callable[[Any], Any], Any], Any] = vars(_decompositions)[
    "tree_map"
]


def registered_decomposition(op: OpOverload) -> Callable[..., Any] | None:
    """The Python function registered as the decomposition of an op."""
    return decomposition_table.get(op)


def decomposition_of(op: OpOverload) -> Callable[..., Any] | None:
    """What torch traces for an op that has no rule; None where there is nothing to trace."""
    registered = registered_decomposition(op)
    if registered is not None:
        return registered
    return op.decompose if op._can_decompose() else None


def known_decomposition(op: OpOverload) -> Callable[..., Any] | None:
    """`decomposition_of`; None also for an op that torch does not know."""
    try:
        return decomposition_of(op)
    except RuntimeError:
        return None


def ensure_decomposition_schema_info(op: OpOverload) -> None:
    """torch's note of which arguments of a decomposed op its decision depends on."""
    propagator().decomp_strategy.ensure_schema_info(op)
    complete_cache_key_of(op)


def decomposition_mesh(device_type: str) -> DeviceMesh:
    """The mesh of one rank on which torch follows a decomposition."""
    return propagator().decomp_strategy._get_fake_mesh(device_type)  # type: ignore[no-any-return]
