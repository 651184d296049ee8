"""What torch's DTensor registry holds: which ops, of which rule family, derived from which op."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from dataclasses import dataclass
from enum import Enum

import torch
from torch._ops import OpOverload
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._decompositions import DecompShardingStrategy
from torch.distributed.tensor._sharding_prop import ShardingPropagator


class Form(Enum):
    """The calling convention of an op, which decides how its operands are tied together."""

    FUNCTIONAL = "functional"
    INPLACE = "in-place"
    OUT = "out"
    LIST = "list"


class Rule(Enum):
    """How torch decides an op."""

    SINGLE_DIM = "single-dim"
    FULL_MESH = "full mesh"
    DECOMPOSITION = "decomposed"
    NONE = "no rule"  # torch refuses to decide


@dataclass(frozen=True)
class Entry:
    """One op of the single-dim registry."""

    op: OpOverload
    family: str  # name of the strategy function, of the base op's for generated variants
    base: OpOverload | None  # the op a generated variant takes its rule from

    @property
    def form(self) -> Form:
        return form_of(self.op)


def propagator() -> ShardingPropagator:
    return DTensor._op_dispatcher.sharding_propagator


def find_op(name: str) -> OpOverload:
    """The op written as torch prints it, "aten.add.Tensor"."""
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def form_of(op: OpOverload) -> Form:
    name = op._schema.name.split("::")[1]
    if name.startswith(("_foreach_", "_amp_foreach_", "_fused_adam")):
        return Form.LIST
    if any(argument.is_out for argument in op._schema.arguments):
        return Form.OUT
    return Form.INPLACE if name.endswith("_") else Form.FUNCTIONAL


@functools.lru_cache(maxsize=1)
def single_dim_entries() -> tuple[Entry, ...]:
    """Every op of the single-dim registry, in registration order."""
    registry = propagator().op_single_dim_strategy_funcs
    return tuple(_entry(op) for op in registry)


@functools.lru_cache(maxsize=1)
def full_mesh_only() -> frozenset[OpOverload]:
    """Ops that have a rule, but no single-dim one: these stay torch's."""
    owner = propagator()
    known = set(owner.op_strategy_funcs) | set(owner.op_to_rules)
    return frozenset(known - set(owner.op_single_dim_strategy_funcs))


@functools.cache
def rule_of(op: OpOverload) -> Rule:
    if op in propagator().op_single_dim_strategy_funcs:
        return Rule.SINGLE_DIM
    if op in full_mesh_only():
        return Rule.FULL_MESH
    return Rule.DECOMPOSITION if DecompShardingStrategy.has_decomp(op) else Rule.NONE


def _entry(op: OpOverload) -> Entry:
    func = propagator().op_single_dim_strategy_funcs[op].func
    # torch.distributed.tensor._ops.autogen wraps the base op's strategy in a closure.
    captured = inspect.getclosurevars(func).nonlocals if "autogen" in func.__module__ else {}
    base = captured.get("base_op")
    base_func = captured.get("base_fn", func)
    return Entry(op, _family(base_func), base)


def _family(func: object) -> str:
    name = str(getattr(func, "__qualname__", func))
    if "_register_single_dim_pointwise" in name:
        return "pointwise"
    return name.split(".")[-1].removesuffix("_strategy").removesuffix("_single_dim").lstrip("_")


def family_sizes() -> Counter[str]:
    return Counter(entry.family for entry in single_dim_entries())
