"""The adapter: it alone, with `_torch_fakes` and `_torch_ops`, imports private names of torch.

What differs between torch versions is decided here, by looking at what the installed torch has,
and given to the rest of the package as plain functions and constants.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import SymInt
from torch._C._dynamo import eval_frame as _eval_frame
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode
from torch.distributed._functional_collectives import _are_we_tracing as are_we_tracing
from torch.distributed._local_tensor import local_tensor_mode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    _collective_utils,
    _op_schema,
    _redistribute,
    _utils,
)
from torch.distributed.tensor import _sharding_prop as _prop
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema, OutputSharding
from torch.distributed.tensor._ops import _math_ops, _view_ops
from torch.distributed.tensor._ops import single_dim_strategy as _single_dim
from torch.distributed.tensor._ops import utils as _ops_utils
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.distributed.tensor.placement_types import _MaskPartial
from torch.distributed.tensor.placement_types import _StridedShard as StridedShard
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode as DataDependentError,
)
from torch.fx.experimental.symbolic_shapes import (
    expect_true,
    free_symbols,
    guard_or_false,
    guard_or_true,
    statically_known_true,
)

from . import _core
from .sizes import read_size

ShardingPlaceholder = _single_dim._ShardingPlaceholder
IntLike = (int, torch.SymInt)

# The one that torch flattens schemas with: it has two, and they order dicts differently.
tree_leaves: Callable[[Any], list[Any]] = vars(_op_schema)["tree_leaves"]

__all__ = [
    "DTensorSpec",
    "DataDependentError",
    "DeviceMesh",
    "IntLike",
    "OpOverload",
    "OpSchema",
    "OutputSharding",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "ShardingPlaceholder",
    "StridedShard",
    "SymInt",
    "TensorMeta",
    "TransformInfo",
    "are_we_tracing",
    "free_symbols",
    "in_local_tensor_mode",
    "statically_known_true",
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
        "_ShardingPlaceholder": _single_dim._ShardingPlaceholder,
    },
    [(name, hash(name) & 0xFFFFFFFFFFFFFFFF) for name in _REDUCE_OPS],
    read_size=read_size,
    zero_fill_partial=IS_215_OR_LATER,
    compensated_sum=sys.version_info >= (3, 12),
)


def propagator() -> Any:
    """torch's one ShardingPropagator."""
    return DTensor._op_dispatcher.sharding_propagator


def in_local_tensor_mode() -> bool:
    """Is one process standing in for all ranks (LocalTensorMode)?"""
    return local_tensor_mode() is not None


def plans_for_any_rank() -> bool:
    """Is one rank tracing for all of them, with its place in the mesh left open?"""
    if not are_we_tracing():
        return False
    # torch 2.15 has it in its compiler's settings, 2.13 in those of torch.distributed.
    settings = torch.compiler.config if IS_215_OR_LATER else torch.distributed.config
    return bool(settings.compile_on_one_rank)


def graph_plan_wanted(argument: bool | None) -> bool:
    """Which planner torch takes where neither order nor strided shards decide."""
    forced = _redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN
    return bool(argument if forced is None else forced)


def forces_graph_plan() -> bool:
    """Has the program asked for torch's graph planner everywhere?

    (``use_min_cost_redistribution_plan``.)
    """
    return bool(_redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN)


# --- symbolic sizes ---------------------------------------------------------------------------


class _OneCut:
    """All that torch's test of shardability reads of a spec: one tensor dim, cut once."""

    placements = (Shard(0),)

    def __init__(self, pieces: int) -> None:
        self.mesh = self
        self._pieces = pieces

    def size(self, mesh_dim: int) -> int:
        return self._pieces


def can_be_cut(size: Any, pieces: int, allow_unbacked: bool | None) -> bool:
    """torch's test whether a dim of `size` can be sharded over `pieces` ranks, with its guards.

    Raises:
        _core.Unsupported: torch would raise, since only the data can tell.
    """
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    try:
        return _ops_utils.is_tensor_shardable((size,), _OneCut(pieces), allow_unbacked)  # type: ignore[arg-type]
    except GuardOnDataDependentSymNode:
        raise _core.Unsupported("size that only the data can tell") from None


def local_gigabytes(spec: DTensorSpec) -> Any:
    """What a rank holds of a tensor, as torch counts it: an expression where sizes are."""
    return _collective_utils.spec_to_bytes(spec) / spec.num_shards / 1024 / 1024 / 1024


def transition_cost(
    before: Placement, after: Placement, mesh: DeviceMesh, mesh_dim: int, gigabytes: Any
) -> tuple[Any, Any]:
    """Microseconds of one step of a plan, and the gigabytes after it."""
    topology = _collective_utils.MeshTopoInfo.build_from_mesh(mesh)
    return _collective_utils._compute_placement_transition_cost(
        before, after, topology, mesh_dim, gigabytes
    )


def index_of_least_cost(costs: list[Any]) -> int:
    """torch's choice among prices that may be expressions, with its guards."""
    return _prop._select_min_redistribute_cost(costs, [])


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


# --- symbolic sizes ---------------------------------------------------------------------------

# Conditions on sizes are plain bools where the sizes are plain; those are answered at once.


def known(condition: bool) -> bool:
    """Is it true, as far as can be told now? What is told adds a guard."""
    return condition if isinstance(condition, bool) else guard_or_false(condition)


def maybe(condition: bool) -> bool:
    """Is it true, or can it not be told now? What is told adds a guard."""
    return condition if isinstance(condition, bool) else guard_or_true(condition)


def holds(condition: bool) -> bool:
    """Take it to be true, and have it checked when the program runs if it cannot be told now."""
    return condition if isinstance(condition, bool) else expect_true(condition)


def split_factors_match(expected: int, actual: int) -> bool:
    """Are two split factors the same? User's hints for unbacked sizes count, and are checked."""
    if isinstance(expected, int) and isinstance(actual, int):
        return expected == actual
    return _view_ops._split_factor_matches(expected, actual)


def split_factor_has_hint(factor: SymInt) -> bool:
    """May a symbolic split factor be made a number, by user's hints for unbacked sizes?"""
    return _view_ops._explicit_unbacked_hint(factor) is not None


# --- rules ------------------------------------------------------------------------------------


def is_read_out(op: OpOverload) -> bool:
    """Does the op read a number out of a tensor? torch takes the local one, whatever its layout."""
    return op is torch.ops.aten._local_scalar_dense.default


def single_dim_rule(op: OpOverload) -> Any | None:
    """torch's single-dim rule for an op, looked up at the moment of use.

    torch has a rule for ``_local_scalar_dense`` but decides it before it looks (`is_read_out`).
    """
    if is_read_out(op):
        return None
    return propagator().op_single_dim_strategy_funcs.get(op)


def why_no_single_dim_rule(op: OpOverload) -> str:
    """How torch decides an op that has no single-dim rule."""
    prop = propagator()
    if op in prop.op_strategy_funcs:
        return "full-mesh strategy"
    if op in prop.op_to_rules:
        return "propagation rule"
    return "decomposition"


def has_own_full_mesh_strategy(op: OpOverload) -> bool:
    """Does torch decide this op by a full-mesh strategy that came with it?"""
    strategy = propagator().op_strategy_funcs.get(op)
    return strategy is not None and strategy.__module__.startswith(_ops_utils.__package__)


def norm_partial(order: float) -> Partial:
    """What a p-norm of shards leaves pending, p being neither 0 nor infinite."""
    return _math_ops._NormPartial(norm_type=order)


def mask_partial(shape: Sequence[int], dim: int) -> Placement:
    """What is pending where each rank looked up its own shard of `dim` and masked the rest."""
    return _MaskPartial(offset_shape=shape, offset_dim=dim)  # type: ignore[no-untyped-call]


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


# isinstance says the same as these do, but its "no" takes Python a third of a microsecond.
_NOT_SHARDS = frozenset((Replicate, Partial))
_NOT_STRIDED = frozenset((Replicate, Partial, Shard))


def is_shard(placement: Placement) -> bool:
    """A shard, plain or strided."""
    return type(placement) not in _NOT_SHARDS and isinstance(placement, (Shard, StridedShard))


def is_strided(placement: Placement) -> bool:
    """A strided shard."""
    return type(placement) not in _NOT_STRIDED and isinstance(placement, StridedShard)


def has_strided(placements: Iterable[Placement]) -> bool:
    """Is there a strided shard among the placements?"""
    return any(map(is_strided, placements))


def is_evenly_shardable(spec: DTensorSpec, placements: tuple[Placement, ...]) -> bool:
    """torch's test for shards of one size; of `spec`, if it had these placements."""
    wanted = DTensorSpec(spec.mesh, placements, tensor_meta=spec.tensor_meta)
    return _ops_utils.is_tensor_evenly_shardable(spec.shape, wanted)


def local_matrix(spec: DTensorSpec) -> tuple[Sequence[int], Sequence[int], int]:
    """Shape and stride of this rank's shard, and the bytes of an element."""
    if spec.tensor_meta is None:
        raise _core.Unsupported("operand without tensor metadata")
    shape, _ = _utils.compute_local_shape_and_global_offset(
        spec.tensor_meta.shape, spec.mesh, spec.placements, skip_offset=True
    )
    stride = _utils.compute_local_stride(spec.tensor_meta.stride, shape)
    return shape, stride, spec.tensor_meta.dtype.itemsize


def strategy_schema(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpSchema:
    """The schema that torch hands to a filter over whole strategies."""
    return propagator()._wrap_with_op_strategy(OpSchema(op, args, kwargs))  # type: ignore[no-any-return]


@functools.cache
def elementwise_overload(op: OpOverload) -> OpOverload:
    """The scalar op whose rule torch uses for one element of a list op."""
    return _single_dim._resolve_foreach_elementwise_overload(op) or op


# --- propagation ------------------------------------------------------------------------------


def torch_propagate(schema: OpSchema) -> OutputSharding:
    """torch's own propagation, whatever is hooked in."""
    prop = propagator()
    return type(prop).propagate_op_sharding_non_cached(prop, schema)  # type: ignore[no-any-return]


def hide_from_dynamo(function: Callable[..., Any]) -> None:
    """Let Dynamo compile neither `function` nor what it calls.

    After a graph break, DTensor's ops run eagerly inside a frame that is being compiled. Dynamo
    passes over torch's own files then; ours it would try to compile, a tenth of a second each.
    """
    skip = _eval_frame._FrameAction.SKIP
    strategy = _eval_frame._FrameExecStrategy(skip, skip)
    _eval_frame.set_code_exec_strategy(function.__code__, strategy)


def install(propagate: Callable[[OpSchema], OutputSharding]) -> None:
    """Put `propagate` where torch's dispatcher asks for a decision, and clear torch's caches."""
    hide_from_dynamo(propagate)
    prop = propagator()
    prop.propagate_op_sharding_non_cached = propagate
    prop.propagate_op_sharding = decision_cache(propagate)
    forget_decisions()


def uninstall() -> None:
    """Undo `install`."""
    prop = propagator()
    vars(prop).pop("propagate_op_sharding_non_cached", None)
    prop.propagate_op_sharding = decision_cache(prop.propagate_op_sharding_non_cached)
    forget_decisions()


def forget_decisions() -> None:
    """Clear torch's caches of decisions, in Python and in its C++ dispatcher."""
    _clear_sharding_prop_cache()  # type: ignore[no-untyped-call]


def op_schema(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpSchema:
    """A schema as torch's dispatcher would make it."""
    prop = propagator()
    info = prop.op_to_schema_info.get(op)
    if info is None:
        info = prop.op_to_schema_info_for_single_dim_strategy.get(op)
    return OpSchema(op, args, kwargs, schema_info=info)


def decision_cache(propagate: Callable[[OpSchema], OutputSharding]) -> Any:
    """torch's cache around a function that decides."""
    return _prop.LocalLRUCache(propagate)


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
    for function in (cost, plan, plan_non_cached):
        hide_from_dynamo(function)
    _set_pricing(cost, plan, plan_non_cached)


def uninstall_pricing() -> None:
    """Undo `install_pricing`."""
    _set_pricing(
        torch_redistribute_cost, torch_gen_transform_infos, torch_gen_transform_infos_non_cached
    )


def _set_pricing(cost: Any, plan: Any, plan_non_cached: Any) -> None:
    for module in (_collective_utils, _utils, _ops_utils):
        module.redistribute_cost = cost  # type: ignore[attr-defined]
    _redistribute._gen_transform_infos = plan
    _redistribute._gen_transform_infos_non_cached = plan_non_cached


def forget_plans() -> None:
    """Clear the caches of torch's redistribution planners (and with them their history)."""
    torch_gen_transform_infos.cache_clear()
    _redistribute.clear_redistribute_planner_cache()
