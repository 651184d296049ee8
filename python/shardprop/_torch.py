"""The adapter: the ONLY file that imports private names of torch.

What differs between torch versions is decided here, by looking at what the installed torch has,
and given to the rest of the package as plain functions and constants.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode
from torch.distributed._functional_collectives import _are_we_tracing as are_we_tracing
from torch.distributed._local_tensor import local_tensor_mode, maybe_disable_local_tensor_mode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    _collective_utils,
    _decompositions,
    _op_schema,
    _redistribute,
    _utils,
)
from torch.distributed.tensor import _sharding_prop as _prop
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema, OutputSharding
from torch.distributed.tensor._ops import single_dim_strategy as _single_dim
from torch.distributed.tensor._ops import utils as _ops_utils
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.distributed.tensor.placement_types import _StridedShard as StridedShard
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from . import _core

# Stands for any kind of sharding in a rule's rows.
ShardingPlaceholder = _single_dim._ShardingPlaceholder

# The one that torch flattens schemas with: it has two, and they order dicts differently.
tree_leaves: Callable[[Any], list[Any]] = vars(_op_schema)["tree_leaves"]

__all__ = [
    "DTensorSpec",
    "DeviceMesh",
    "OpOverload",
    "OpSchema",
    "OutputSharding",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "ShardingPlaceholder",
    "StridedShard",
    "TensorMeta",
    "TorchDispatchMode",
    "TransformInfo",
    "are_we_tracing",
    "in_local_tensor_mode",
    "tree_leaves",
]

# torch 2.15: a plain shard may become Partial(sum) by zero fill, outputs that are absent in every
# row stay absent in the all-Replicate row, list outputs keep their container, the mesh is looked
# for in keyword arguments too.
IS_215_OR_LATER = hasattr(
    _redistribute.DTensorRedistributePlanner, "_get_shard_to_partial_target_states"
)

_REDUCE_OPS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")

_core.configure(
    {
        "Placement": Placement,
        "Replicate": Replicate,
        "Shard": Shard,
        "_StridedShard": StridedShard,
        "Partial": Partial,
        "_ShardingPlaceholder": ShardingPlaceholder,
    },
    [(name, hash(name) & 0xFFFFFFFFFFFFFFFF) for name in _REDUCE_OPS],
    zero_fill_partial=IS_215_OR_LATER,
    compensated_sum=sys.version_info >= (3, 12),
)


def propagator() -> Any:
    """torch's one ShardingPropagator."""
    return DTensor._op_dispatcher.sharding_propagator


def in_local_tensor_mode() -> bool:
    """Is one process standing in for all ranks (LocalTensorMode)?"""
    return local_tensor_mode() is not None


def graph_plan_wanted(argument: bool | None) -> bool:
    """Which planner torch takes where neither order nor strided shards decide."""
    forced = _redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN
    return bool(argument if forced is None else forced)


def forces_graph_plan() -> bool:
    """Has the program asked for torch's graph planner everywhere?

    (``use_min_cost_redistribution_plan``.)
    """
    return bool(_redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN)


# --- the mesh ---------------------------------------------------------------------------------

_meshes: dict[int, tuple[weakref.ref[DeviceMesh], _core.Mesh]] = {}


def core_mesh(mesh: DeviceMesh) -> _core.Mesh:
    """The core's view of a mesh, made once per mesh object.

    Raises:
        _core.Unsupported: the mesh has no dims, more than 8, or one of size 0.
    """
    local = in_local_tensor_mode()
    known = _meshes.get(id(mesh))
    if known is not None and known[0]() is mesh and not local:
        return known[1]
    topology = _collective_utils.MeshTopoInfo.build_from_mesh(mesh)
    coordinate: Sequence[int] | None = None
    if mesh._is_current_rank_part_of_mesh():
        # In LocalTensorMode the coordinate is one per rank; prices do not depend on it.
        coordinate = [0] * mesh.ndim if local else list(mesh.get_coordinate())  # type: ignore[arg-type]
    core = _core.Mesh(
        topology.mesh_dim_devices,
        topology.mesh_dim_bandwidth,
        topology.mesh_dim_latency,
        coordinate,
    )
    if not local:
        key = id(mesh)
        _meshes[key] = (weakref.ref(mesh, lambda _: _meshes.pop(key, None)), core)
    return core


def mesh_of(schema: OpSchema) -> DeviceMesh:
    """The mesh that computes; as torch finds it.

    Raises:
        ValueError: no operand has one.
    """
    args: tuple[Any, ...] = schema.args_schema
    if IS_215_OR_LATER:
        args = (*args, *schema.kwargs_schema.values())
    return _utils.try_find_mesh_from_args(schema.op, args)


# --- rules ------------------------------------------------------------------------------------


def single_dim_rule(op: OpOverload) -> Any | None:
    """torch's single-dim rule for an op, looked up at the moment of use.

    torch has a rule for ``_local_scalar_dense`` but decides it before it looks.
    """
    if op is torch.ops.aten._local_scalar_dense.default:
        return None
    return propagator().op_single_dim_strategy_funcs.get(op)


def why_no_single_dim_rule(op: OpOverload) -> str:
    """How torch decides an op that has no single-dim rule."""
    prop = propagator()
    if op is torch.ops.aten._local_scalar_dense.default:
        return "local scalar"
    if op in prop.op_strategy_funcs:
        return "full-mesh strategy"
    if op in prop.op_to_rules:
        return "propagation rule"
    return "decomposition"


def validate_meta_count(schema: OpSchema, meta: object) -> None:
    """torch's check that the metadata has as many outputs as the op.

    Raises:
        AssertionError: torch's own.
    """
    _prop._validate_tensor_meta_count(schema, meta)  # type: ignore[arg-type]


def shard_kinds(specs: Sequence[DTensorSpec]) -> list[int]:
    """Kinds of sharding seen, 0 for Shard and else a split factor, in the order of torch's set."""
    unique: set[Placement] = set()
    for spec in specs:
        unique.update(spec.placements)
    kinds: list[int] = []
    for placement in unique:
        if isinstance(placement, StridedShard):
            kind = int(placement.split_factor)
        elif isinstance(placement, Shard):
            kind = 0
        else:
            continue
        if kind not in kinds:
            kinds.append(kind)
    return kinds


def strategy_schema(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpSchema:
    """The schema that torch hands to a filter over whole strategies."""
    return propagator()._wrap_with_op_strategy(OpSchema(op, args, kwargs))  # type: ignore[no-any-return]


@functools.cache
def elementwise_overload(op: OpOverload) -> OpOverload:
    """The scalar op whose rule torch uses for one element of a list op."""
    return _single_dim._resolve_foreach_elementwise_overload(op) or op


# --- decompositions ---------------------------------------------------------------------------

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


def ensure_decomposition_schema_info(op: OpOverload) -> None:
    """torch's note of which arguments of a decomposed op its decision depends on."""
    propagator().decomp_strategy.ensure_schema_info(op)


def decomposition_mesh(device_type: str) -> DeviceMesh:
    """The mesh of one rank on which torch follows a decomposition."""
    return propagator().decomp_strategy._get_fake_mesh(device_type)  # type: ignore[no-any-return]


def real_mesh(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DeviceMesh:
    """The mesh of a decomposed op; every torch looks among its keyword arguments too.

    Raises:
        ValueError: no operand has one.
    """
    return _utils.try_find_mesh_from_args(op, (*args, *kwargs.values()))


def no_local_tensors() -> AbstractContextManager[object]:
    """One process does not stand in for all ranks while a decomposition is followed."""
    return maybe_disable_local_tensor_mode()


def no_modes() -> AbstractContextManager[object]:
    """No mode of the program (fake tensors, proxies, counters) sees the block."""
    return _disable_current_modes()


_OUTSIDE = (
    torch._C._dispatch_tls_local_include_set(),
    torch._C._dispatch_tls_local_exclude_set(),
)


@contextmanager
def outside_dispatch() -> Iterator[None]:
    """As if no op, mode or inference mode were under way: composite ops come apart first."""
    with no_modes(), torch._C._ForceDispatchKeyGuard(*_OUTSIDE), torch.inference_mode(False):
        yield


def dispatch_state() -> tuple[object, ...]:
    """What a decomposition depends on beside its arguments.

    Inside a DTensor op autograd is out of the way, and composite ops reach a mode whole; asked from
    outside, they come apart first.
    """
    return (
        torch._C._dispatch_tls_local_exclude_set().raw_repr(),
        torch._C._dispatch_tls_local_include_set().raw_repr(),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        forces_graph_plan(),
    )


def drops_try(error: Exception) -> bool:
    """Does torch drop a combination of placements for this error, rather than the whole op?"""
    if isinstance(error, NotImplementedError | GuardOnDataDependentSymNode):
        return False  # these are RuntimeErrors, too
    return isinstance(error, RuntimeError | KeyError | IndexError)


def rules_of(op: OpOverload) -> tuple[object, object, object]:
    """Every rule that torch has for an op, of any kind."""
    prop = propagator()
    return (
        prop.op_single_dim_strategy_funcs.get(op),
        prop.op_strategy_funcs.get(op),
        prop.op_to_rules.get(op),
    )


def rewrites_arguments(op: OpOverload) -> bool:
    """Does torch rewrite the global sizes among the op's arguments to local ones?"""
    prop = propagator()
    return any(
        op in table
        for table in (
            prop.op_to_shape_and_stride_idx,
            prop.op_to_scalar_shape_adjuster,
            prop.squeeze_op_to_dims_variant,
        )
    )


def shape_arguments(op: OpOverload) -> tuple[int, ...]:
    """Positions of the arguments that torch rewrites to the local shape (and stride)."""
    index = propagator().op_to_shape_and_stride_idx.get(op, ())
    return index if isinstance(index, tuple) else (index,)


# --- propagation ------------------------------------------------------------------------------


def torch_propagate(schema: OpSchema) -> OutputSharding:
    """torch's own propagation, whatever is hooked in."""
    prop = propagator()
    return type(prop).propagate_op_sharding_non_cached(prop, schema)  # type: ignore[no-any-return]


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
    prop = propagator()
    known = _KnownMeta(prop, meta)
    return type(prop).propagate_op_sharding_non_cached(known, schema)  # type: ignore[no-any-return]


def install(propagate: Callable[[OpSchema], OutputSharding]) -> None:
    """Put `propagate` where torch's dispatcher asks for a decision, and clear torch's caches."""
    prop = propagator()
    prop.propagate_op_sharding_non_cached = propagate
    prop.propagate_op_sharding = _prop.LocalLRUCache(propagate)
    forget_decisions()


def uninstall() -> None:
    """Undo `install`."""
    prop = propagator()
    vars(prop).pop("propagate_op_sharding_non_cached", None)
    prop.propagate_op_sharding = _prop.LocalLRUCache(prop.propagate_op_sharding_non_cached)
    forget_decisions()


def forget_decisions() -> None:
    """Clear torch's caches of decisions, in Python and in its C++ dispatcher."""
    _clear_sharding_prop_cache()  # type: ignore[no-untyped-call]


def op_schema(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpSchema:
    """A schema as torch's dispatcher would make it."""
    return OpSchema(op, args, kwargs, schema_info=op_schema_info(op))


def op_schema_info(op: OpOverload) -> Any | None:
    """What torch notes about an op's arguments."""
    prop = propagator()
    info = prop.op_to_schema_info.get(op)
    return prop.op_to_schema_info_for_single_dim_strategy.get(op) if info is None else info


def looks_into_lists(op: OpOverload) -> bool:
    """Does torch count the tensors in the op's list arguments as operands?"""
    info = op_schema_info(op)
    return info is not None and info.needs_pytree


@contextmanager
def watch_propagation(
    callback: Callable[[OpSchema, OutputSharding | Exception, float], None],
) -> Iterator[None]:
    """Call `callback(schema, answer, seconds)` after each propagation that no cache answered.

    Whoever decides is measured, torch or what `install` put in its place, so enter it after
    `install` and leave it before `uninstall`. The answer is the OutputSharding, or the exception
    that propagation raised. Propagations inside another one (torch tracing a decomposition) are
    part of the outer one and not reported. The time spent in the callback is not counted.
    """
    prop = propagator()
    hooked = ("propagate_op_sharding_non_cached", "propagate_op_sharding")
    saved = {name: vars(prop)[name] for name in hooked if name in vars(prop)}
    inner = prop.propagate_op_sharding_non_cached
    inside = threading.local()

    def watched(schema: OpSchema) -> OutputSharding:
        if getattr(inside, "yes", False):
            return inner(schema)  # type: ignore[no-any-return]
        inside.yes = True
        answer: OutputSharding | Exception
        start = perf_counter()
        try:
            answer = inner(schema)
        except Exception as error:
            answer = error
        finally:
            seconds = perf_counter() - start
            inside.yes = False
        callback(schema, answer, seconds)
        if isinstance(answer, Exception):
            raise answer
        return answer

    prop.propagate_op_sharding_non_cached = watched
    prop.propagate_op_sharding = _prop.LocalLRUCache(watched)
    try:
        yield
    finally:
        vars(prop).pop("propagate_op_sharding_non_cached", None)
        vars(prop).update(saved)


def clear_torch_caches() -> None:
    """Forget every decision, plan and output metadata that torch holds, as in a new process."""
    forget_decisions()
    propagator()._propagate_tensor_meta_cached.cache_clear()
    FakeTensorMode.cache_clear()
    forget_plans()


# --- redistribution ---------------------------------------------------------------------------

torch_redistribute_cost = _collective_utils.redistribute_cost
torch_gen_transform_infos = _redistribute._gen_transform_infos
torch_gen_transform_infos_non_cached = _redistribute._gen_transform_infos_non_cached
TransformInfo = _redistribute._TransformInfo


def install_pricing(
    cost: Callable[..., float], plan: Callable[..., Any], plan_non_cached: Callable[..., Any]
) -> None:
    """Replace torch's price and plan of a redistribution."""
    for module in (_collective_utils, _utils, _ops_utils):
        module.redistribute_cost = cost  # type: ignore[attr-defined]
    _redistribute._gen_transform_infos = plan  # type: ignore[assignment]
    _redistribute._gen_transform_infos_non_cached = plan_non_cached


def uninstall_pricing() -> None:
    """Undo `install_pricing`."""
    install_pricing(
        torch_redistribute_cost, torch_gen_transform_infos, torch_gen_transform_infos_non_cached
    )


def forget_plans() -> None:
    """Clear the caches of torch's redistribution planners (and with them their history)."""
    torch_gen_transform_infos.cache_clear()
    _redistribute.clear_redistribute_planner_cache()
