"""What torch's registries say of an op, looked up at the moment of use."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import torch

from .. import _torch
from .._torch import (
    OpOverload,
    OpSchema,
    RegistryEntries,
    RuntimeSchemaInfo,
    SingleDimStrategyInfo,
    op_schema_info,
    ops_with_a_rule,
)
from ..model.op_traits import traits_of

__all__ = [
    "Entries",
    "TorchsWay",
    "entries",
    "has_own_full_mesh_strategy",
    "has_rule",
    "has_stand_in",
    "is_read_out",
    "is_rule_torchs",
    "looks_into_lists",
    "op_schema",
    "op_schema_info",
    "ops_decided",
    "ops_with_a_rule",
    "put",
    "restore",
    "rule_function",
    "rules_of",
    "single_dim_entry",
    "torchs_way",
    "way_to_a_rule",
]


def ops_decided() -> set[OpOverload]:
    """Every op that takes a tensor and is decided: by a rule, or by what it decomposes into."""
    decomposed = {
        op
        for op in _torch.all_ops()
        if traits_of(op).takes_tensors and _torch.has_decomposition(op)
    }
    return ops_with_a_rule() | decomposed


_READ_OUT = torch.ops.aten._local_scalar_dense.default


def is_read_out(op: OpOverload) -> bool:
    """Does the op read a number out of a tensor? torch takes the local one, whatever its layout."""
    return op is _READ_OUT


class TorchsWay(Enum):
    """How torch decides an op that has no single-dim rule."""

    FULL_MESH_STRATEGY = "full-mesh strategy"
    PROPAGATION_RULE = "propagation rule"
    DECOMPOSITION = "decomposition"


def single_dim_entry(op: OpOverload) -> Any | None:
    """What torch's registry of single-dim rules has for an op, looked up at the moment of use.

    torch has one for ``_local_scalar_dense``, but decides it before it looks (`is_read_out`).
    """
    if op is _READ_OUT:
        return None
    return _torch.single_dim_rule_of(op)


def has_stand_in(op: OpOverload) -> bool:
    """Is the op's single-dim rule one that it got for lack of any (`without_rule`)?"""
    return getattr(single_dim_entry(op), "stands_in", False)


def torchs_way(op: OpOverload) -> TorchsWay:
    """How torch decides an op that has no single-dim rule."""
    if _torch.full_mesh_rule_of(op) is not None:
        return TorchsWay.FULL_MESH_STRATEGY
    if _torch.propagation_rule_of(op) is not None:
        return TorchsWay.PROPAGATION_RULE
    return TorchsWay.DECOMPOSITION


def way_to_a_rule(op: OpOverload) -> str:
    """What an op that nobody has a rule for can be given one by."""
    return (
        f"give it one: shardprop.register_rule(torch.ops.{op}, ...); or have it found: "
        f"shardprop discover {_torch.function_schema(op).name} --module FILE --samples FILE"
    )


def has_own_full_mesh_strategy(op: OpOverload) -> bool:
    """Does torch decide this op by a full-mesh strategy that came with it?"""
    strategy = _torch.full_mesh_rule_of(op)
    return strategy is not None and _torch.came_with_torch(op, strategy)


def rules_of(op: OpOverload) -> tuple[object, object, object]:
    """Every rule that torch has for an op, of any kind."""
    return (
        _torch.single_dim_rule_of(op),
        _torch.full_mesh_rule_of(op),
        _torch.propagation_rule_of(op),
    )


def has_rule(op: OpOverload) -> bool:
    """Has torch a rule of any kind for an op?"""
    return any(rule is not None for rule in rules_of(op))


def op_schema(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpSchema:
    """A schema as torch's dispatcher would make it."""
    return OpSchema(op, args, kwargs, schema_info=op_schema_info(op))


def looks_into_lists(op: OpOverload) -> bool:
    """Does torch count the tensors in the op's list arguments as operands?"""
    info = op_schema_info(op)
    return info is not None and info.needs_pytree


class Entries(NamedTuple):
    """What a registration changes of torch's registries for one op, and whether torch had a rule of
    any kind."""

    of_torch: RegistryEntries
    has_rule: bool


def entries(op: OpOverload) -> Entries:
    """What is there now."""
    return Entries(_torch.registry_entries(op), has_rule(op))


def put(op: OpOverload, rule: SingleDimStrategyInfo, info: RuntimeSchemaInfo) -> None:
    """Make `rule` the one that torch asks. Of its notes on arguments torch reads the first that is
    there, so both are written."""
    _torch.set_registry_entries(op, RegistryEntries(rule, info, info))
    _torch.settle_cache_key(op)


def restore(op: OpOverload, before: Entries) -> None:
    """Undo `put`."""
    _torch.set_registry_entries(op, before.of_torch)
    _torch.settle_cache_key(op)


def is_rule_torchs(op: OpOverload) -> bool:
    """Did the function by which torch decides an op come with torch?"""
    function = rule_function(op)
    return function is not None and _torch.came_with_torch(op, function)


def rule_function(op: OpOverload) -> Callable[..., Any] | None:
    """The function by which torch decides an op, of whichever kind."""
    single_dim, strategy, prop_rule = rules_of(op)
    if isinstance(single_dim, SingleDimStrategyInfo):
        return single_dim.func
    return strategy or prop_rule  # type: ignore[return-value]
