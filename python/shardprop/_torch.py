"""The adapter: the ONLY file that imports private names of torch.

What differs between torch versions is decided here, by looking at what the installed torch has,
and given to the rest of the package as plain functions and constants.
"""

from __future__ import annotations

import functools
import itertools
import operator
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import SymInt
from torch._C._dynamo import eval_frame as _eval_frame
from torch._decomp import decomposition_table
from torch._guards import detect_fake_mode
from torch._library import custom_ops as _custom_ops
from torch._library.simple_registry import singleton as _custom_kernels
from torch._library.utils import can_generate_trivial_fake_impl
from torch._logging import _internal as _torch_logging
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.distributed import _functional_collectives as _collectives
from torch.distributed._functional_collectives import _are_we_tracing as are_we_tracing
from torch.distributed._local_tensor import (
    LocalTensor,
    LocalTensorMode,
    local_tensor_mode,
    maybe_disable_local_tensor_mode,
    maybe_run_for_local_tensor,
)
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    _collective_utils,
    _decompositions,
    _dispatch,
    _op_schema,
    _random,
    _redistribute,
    _utils,
)
from torch.distributed.tensor import _sharding_prop as _prop
from torch.distributed.tensor import placement_types as _placement_types
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema, OutputSharding
from torch.distributed.tensor._ops import _math_ops, _view_ops
from torch.distributed.tensor._ops import single_dim_strategy as _single_dim
from torch.distributed.tensor._ops import utils as _ops_utils
from torch.distributed.tensor.placement_types import _MaskPartial
from torch.distributed.tensor.placement_types import _StridedShard as StridedShard
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode as DataDependentError,
)
from torch.fx.experimental.symbolic_shapes import (
    free_symbols,
    statically_known_true,
)
from torch.utils._debug_mode import get_active_debug_mode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from . import _core
from .errors import ShardpropError
from .sizes import read_size

IntLike = (int, torch.SymInt)

# What an op raises on fake tensors whose values it would have to know.
VALUES_NEEDED = (DataDependentOutputException, DynamicOutputShapeException, DataDependentError)

# Stands for any kind of sharding in a rule's rows.
ShardingPlaceholder = _single_dim._ShardingPlaceholder

# An entry of torch's registry of single-dim rules, and what its cache keys are made from.
SingleDimStrategyInfo = _single_dim._SingleDimStrategyInfo
RuntimeSchemaInfo = _op_schema.RuntimeSchemaInfo

# The one that torch flattens schemas with: it has two, and they order dicts differently.
tree_leaves: Callable[[Any], list[Any]] = vars(_op_schema)["tree_leaves"]
_pytree = sys.modules[tree_leaves.__module__]
tree_flatten: Callable[[Any], tuple[list[Any], Any]] = _pytree.tree_flatten
tree_unflatten: Callable[[list[Any], Any], Any] = _pytree.tree_unflatten

NormPartial = _math_ops._NormPartial

__all__ = [
    "REDUCE_OPS",
    "DTensor",
    "DTensorSpec",
    "DataDependentError",
    "DeviceMesh",
    "FakeTensor",
    "FakeTensorMode",
    "IntLike",
    "NormPartial",
    "OpOverload",
    "OpOverloadPacket",
    "OpSchema",
    "OutputSharding",
    "Partial",
    "Placement",
    "Replicate",
    "RuntimeSchemaInfo",
    "Shard",
    "ShardOrderEntry",
    "ShardingPlaceholder",
    "SingleDimStrategyInfo",
    "StridedShard",
    "SymInt",
    "TensorMeta",
    "TorchDispatchMode",
    "TransformInfo",
    "are_we_tracing",
    "free_symbols",
    "in_local_tensor_mode",
    "no_dispatch",
    "statically_known_true",
    "tree_flatten",
    "tree_leaves",
    "tree_unflatten",
]

# torch 2.15: a plain shard may become Partial(sum) by zero fill, outputs that are absent in every
# row stay absent in the all-Replicate row, list outputs keep their container, the mesh is looked
# for in keyword arguments too.
IS_215_OR_LATER = hasattr(
    _redistribute.DTensorRedistributePlanner, "_get_shard_to_partial_target_states"
)

# In the order of the core's numbers for them.
REDUCE_OPS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")

_core.configure(
    {
        "Placement": Placement,
        "Replicate": Replicate,
        "Shard": Shard,
        "_StridedShard": StridedShard,
        "Partial": Partial,
        "_ShardingPlaceholder": ShardingPlaceholder,
        "DTensorSpec": DTensorSpec,
        "dtype": torch.dtype,
        "layout": torch.layout,
        "memory_format": torch.memory_format,
    },
    [(name, hash(name) & 0xFFFFFFFFFFFFFFFF) for name in REDUCE_OPS],
    read_size=read_size,
    zero_fill_partial=IS_215_OR_LATER,
    compensated_sum=sys.version_info >= (3, 12),
)


# Where the rules are that come with torch.
OPS_PACKAGE: str = _ops_utils.__package__


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


def forces_a_planner() -> bool:
    """Has the program named one of torch's two planners for everything?

    (``use_min_cost_redistribution_plan``, with True or False.)
    """
    return _redistribute._FORCE_MIN_COST_REDISTRIBUTION_PLAN is not None


# --- symbolic sizes ---------------------------------------------------------------------------


def is_shardable(shape: Sequence[Any], spec: Any, allow_unbacked: bool | None) -> bool:
    """torch's test of shardability, with its guards; of `spec` it reads placements and mesh."""
    return _ops_utils.is_tensor_shardable(shape, spec, allow_unbacked)


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


def mesh_topology(mesh: DeviceMesh) -> Any:
    """torch's prices of the links of a mesh."""
    return _collective_utils.MeshTopoInfo.build_from_mesh(mesh)


def coordinate_in(mesh: DeviceMesh) -> Sequence[int] | None:
    """Where this rank is in a mesh; None if it is not. In LocalTensorMode it is everywhere."""
    if not mesh._is_current_rank_part_of_mesh():
        return None
    return [0] * mesh.ndim if in_local_tensor_mode() else list(mesh.get_coordinate())  # type: ignore[arg-type]


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


def split_factors_match(expected: int, actual: int) -> bool:
    """Are two split factors the same? User's hints for unbacked sizes count, and are checked."""
    if isinstance(expected, int) and isinstance(actual, int):
        return expected == actual
    return _view_ops._split_factor_matches(expected, actual)


def split_factor_has_hint(factor: SymInt) -> bool:
    """May a symbolic split factor be made a number, by user's hints for unbacked sizes?"""
    return _view_ops._explicit_unbacked_hint(factor) is not None


# --- ranks that are not there -----------------------------------------------------------------


def make_fake_process_group(ranks: int) -> None:
    """Let this process be rank 0 of `ranks`, with collectives that send nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)


def all_ranks_at_once(ranks: int) -> AbstractContextManager[object]:
    """One process stands in for all ranks, and its collectives are carried out."""
    return LocalTensorMode(ranks)


def as_one_tensor(local: Sequence[torch.Tensor]) -> torch.Tensor:
    """The tensors of all ranks as that one process holds them."""
    return LocalTensor(dict(enumerate(local)))  # type: ignore[no-untyped-call]


def tensors_of_ranks(tensor: torch.Tensor, ranks: int) -> list[torch.Tensor]:
    """What the ranks hold; a plain tensor where all have the same."""
    held = getattr(tensor, "_local_tensors", {})
    return [held.get(rank, tensor) for rank in range(ranks)]


def flatten_mesh(mesh: DeviceMesh) -> None:
    """Have a mesh of all its dims as one, with which torch merges collectives."""
    mesh._flatten()


wait_tensor: Callable[[torch.Tensor], torch.Tensor] = _collectives.wait_tensor
all_gather_single = _collectives.all_gather_single
reduce_scatter_single = _collectives.reduce_scatter_single
all_reduce = _collectives.all_reduce
all_to_all_single = _collectives.all_to_all_single
shard_dim_alltoall: Callable[..., torch.Tensor] = _collective_utils.shard_dim_alltoall


# --- rules ------------------------------------------------------------------------------------


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


def is_evenly_shardable(spec: DTensorSpec, placements: tuple[Placement, ...]) -> bool:
    """torch's test for shards of one size; of `spec`, if it had these placements."""
    wanted = DTensorSpec(spec.mesh, placements, tensor_meta=spec.tensor_meta)
    return _ops_utils.is_tensor_evenly_shardable(spec.shape, wanted)


def local_shape(spec: DTensorSpec) -> tuple[int, ...]:
    """What this rank holds of a tensor; torch looks at no shard order here."""
    shape, _ = _utils.compute_local_shape_and_global_offset(
        spec.shape, spec.mesh, spec.placements, skip_offset=True
    )
    return tuple(shape)


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


# --- which ops there are ---------------------------------------------------------------------

# The handlers of torch's dispatcher that ask the propagator and do something more around it.
_ASKING_HANDLERS = frozenset(
    getattr(_dispatch, name)
    for name in ("argminmax_handler", "convolution_handler", "convolution_backward_handler")
)
_ASKING_CODES = frozenset(handler.__code__ for handler in _ASKING_HANDLERS)


def handlers_instead_of_propagation() -> Mapping[OpOverload, Callable[..., Any]]:
    """Ops that torch's dispatcher hands to a function which asks for no decision about them."""
    handlers = DTensor._op_dispatcher._custom_op_handlers
    return {op: handler for op, handler in handlers.items() if handler not in _ASKING_HANDLERS}


def handler_around_propagation(op: OpOverload) -> Callable[..., Any] | None:
    """The function that torch's dispatcher hands an op to, and that asks for a decision: it moves
    operands by itself, if at all, not as the decision says. None for other ops."""
    handler = DTensor._op_dispatcher._custom_op_handlers.get(op)
    return handler if handler in _ASKING_HANDLERS else None


class MovedOperand(NamedTuple):
    """What torch's dispatcher redistributes for an op.

    Attributes:
        op: The overload.
        args: Its arguments, flat, with specs in place of tensors.
        tree: Where in the op's lists they belong; None if none is in a list.
        place: Which of `args` is moved.
    """

    op: OpOverload
    args: Sequence[Any]
    tree: Any
    place: int


_MOVING_CODE = type(DTensor._op_dispatcher).redistribute_local_args.__code__


def moved_for(depth: int, is_users: Callable[[str], bool]) -> MovedOperand | OpOverload | None:
    """For whom the function `depth` frames up redistributes: an operand of an op, or an op one of
    whose handlers moves something by itself, or None: the program asked for it.

    None of torch's functions between calls code of the user's: a frame of the user's ends the
    search.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        if code is _MOVING_CODE:
            found = frame.f_locals
            moved = found["op_info"]
            op = found["suggested_input_schema"].op
            return MovedOperand(op, moved.flat_args_schema, moved.args_tree_spec, found["i"])
        if code in _ASKING_CODES:
            return frame.f_locals["op_call"]  # type: ignore[no-any-return]
        if is_users(code.co_filename):
            return None
        frame = frame.f_back
    return None


def has_decomposition(op: OpOverload) -> bool:
    """Would torch trace a decomposition for the op if it had no rule?"""
    return _decompositions.DecompShardingStrategy.has_decomp(op)


def all_ops() -> Iterator[OpOverload]:
    """Every overload that the dispatcher knows."""
    for name in torch._C._dispatch_get_all_op_names():
        qualified, _, overload = name.partition(".")
        namespace, _, packet = qualified.partition("::")
        found = getattr(getattr(torch.ops, namespace), packet)
        yield getattr(found, overload or "default")


def comes_apart_above(op: OpOverload) -> bool:
    """Is the op composite, so that autograd takes it apart before DTensor sees it?

    In inference mode there is no autograd, and DTensor gets the op whole.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = op.name()  # type: ignore[no-untyped-call]
    key = torch._C.DispatchKey
    is_composite = has_kernel(name, key.CompositeImplicitAutograd)
    return is_composite and not (has_kernel(name, key.CPU) or has_kernel(name, key.CUDA))


class _NoRandomState:
    """In the place of what gives each rank its random numbers: it leaves the generator alone."""

    distribute_region_enabled = False

    def _distribute_region(self, *_: object, **__: object) -> AbstractContextManager[None]:
        return nullcontext()


@contextmanager
def without_random_state() -> Iterator[None]:
    """Random ops on DTensors draw from the generator as it is in the block, whatever a rank holds.

    torch would make what gives each rank its numbers when it meets the first such op, and have the
    ranks agree on a seed, which is a collective.
    """
    before = _random._rng_tracker
    _random._rng_tracker = _NoRandomState()  # type: ignore[assignment]
    try:
        yield
    finally:
        _random._rng_tracker = before


# --- metadata of outputs ----------------------------------------------------------------------


def may_be_symbolic() -> bool:
    """Is somebody's fake mode around, where sizes may be symbols and tensors have real values?"""
    return are_we_tracing() or detect_fake_mode() is not None


def torch_output_meta(schema: OpSchema) -> Any:
    """The metadata of an op's outputs, computed by torch."""
    return propagator()._propagate_tensor_meta_non_cached(schema)


def takes_numbers_as_tensors(op: OpOverload) -> bool:
    """Does the op take a Python number where its schema says Tensor?"""
    name: str = op._schema.name
    return bool(torch._C._should_allow_numbers_as_tensors(name.rpartition("::")[2]))


def fake_mode_lock() -> AbstractContextManager[Any]:
    """What torch holds while it uses a fake mode: nothing, unless a test has put a lock there."""
    return _prop.ShardingPropagator._fake_mode_lock


# --- calls past what the program has put around ops -------------------------------------------

_OUTSIDE = (
    torch._C._dispatch_tls_local_include_set(),
    torch._C._dispatch_tls_local_exclude_set(),
)

_KEY = torch._C.DispatchKey
_ABOVE_KERNELS = (
    *(_KEY.Python, _KEY.PythonTLSSnapshot, _KEY.PreDispatch),
    *(_KEY.Functionalize, _KEY.FuncTorchDynamicLayerFrontMode),
    *(_KEY.AutogradFunctionality, _KEY.ADInplaceOrView),
)
_KERNELS_ONLY = (
    _OUTSIDE[0],
    functools.reduce(operator.or_, map(torch._C.DispatchKeySet, _ABOVE_KERNELS), _OUTSIDE[1]),
)
_TRACERS_KERNELS_ONLY = (
    _KERNELS_ONLY[0] | torch._C.DispatchKeySet(_KEY.PythonDispatcher),
    _KERNELS_ONLY[1],
)


def no_modes() -> AbstractContextManager[object]:
    """No mode of the program (fake tensors, proxies, counters) sees the block."""
    return _disable_current_modes()


@contextmanager
def outside_dispatch() -> Iterator[None]:
    """As if no op, mode or inference mode were under way: composite ops come apart first."""
    with no_modes(), torch._C._ForceDispatchKeyGuard(*_OUTSIDE), torch.inference_mode(False):
        yield


def no_mode_dispatch() -> AbstractContextManager[object]:
    """A call goes straight to its kernel: no mode, transform, tracer or autograd sees it.

    A tracer may have put torch's dispatcher in Python to work, which prefers kernels in Python:
    they can have other strides for dims of size 1, and refuse more. Then it goes on to choose.
    """
    keys = _TRACERS_KERNELS_ONLY if python_chooses_kernels() else _KERNELS_ONLY
    return torch._C._ForceDispatchKeyGuard(*keys)


def python_chooses_kernels() -> bool:
    """Has a tracer put torch's dispatcher in Python to work?"""
    return torch._C._dispatch_tls_is_dispatch_key_included(_KEY.PythonDispatcher)


def kernel_state() -> tuple[object, ...]:
    """What of the program's settings a meta kernel may read, or which kernel it is."""
    return (
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        python_chooses_kernels(),
    )


def no_torch_function() -> AbstractContextManager[object]:
    """No function mode (a default device is one) sees a call; half the price of the public one."""
    return torch._C.DisableTorchFunction()


def is_autocast_on() -> bool:
    """Would autocast change ops now? Not while an op runs that it has changed already."""
    return torch._C._is_any_autocast_enabled()


def has_autocast_kernel(op: OpOverload) -> bool:
    """Is the op one that autocast changes?"""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = op.name()  # type: ignore[no-untyped-call]
    return has_kernel(name, _KEY.AutocastCPU) or has_kernel(name, _KEY.AutocastCUDA)


def has_custom_fake_kernel(op: OpOverload) -> bool:
    """Has the program registered its own fake kernel for the op?"""
    return _custom_kernels.find(op.name()).fake_impl.kernel is not None  # type: ignore[no-untyped-call]


# --- registration -----------------------------------------------------------------------------


def overload_of_definition(definition: object) -> OpOverload | None:
    """The one overload of an op that ``torch.library.custom_op`` defined; None for aught else."""
    if isinstance(definition, _custom_ops.CustomOpDef):
        overload: OpOverload = definition._opoverload
        return overload
    return None


_KEYS_THAT_SERVE_META_TENSORS = (
    "Meta",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
)


def has_metadata_kernel(op: OpOverload) -> bool:
    """Can torch tell the metadata of the op's outputs without running it on real tensors?"""
    name: str = op.name()  # type: ignore[no-untyped-call]
    definition = _custom_ops.OPDEFS.get(name)
    if definition is not None and definition._abstract_fn is None:
        # It has a fake kernel in any case, which then raises.
        return can_generate_trivial_fake_impl(op)
    kernels = torch._C._dispatch_has_kernel_for_dispatch_key
    return (
        op.namespace in ("aten", "prims")  # torch's own care
        or any(kernels(name, key) for key in _KEYS_THAT_SERVE_META_TENSORS)
        or has_custom_fake_kernel(op)
        or op in decomposition_table
    )


def before_registrations(notify: Callable[[OpOverload], None]) -> None:
    """Call `notify` with an op before torch registers a rule for it, whoever asks it to."""
    prop = propagator()

    def watched(register: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(register)
        def registering(op_overload: OpOverload, *args: Any, **kwargs: Any) -> None:
            notify(op_overload)
            register(op_overload, *args, **kwargs)

        return registering

    prop.register_op_strategy = watched(prop.register_op_strategy)
    prop.register_single_dim_op_strategy = watched(prop.register_single_dim_op_strategy)
    prop.register_sharding_prop_rule = watched(prop.register_sharding_prop_rule)


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


# --- propagation ------------------------------------------------------------------------------


def torch_propagate(schema: OpSchema) -> OutputSharding:
    """torch's own propagation, whatever is hooked in."""
    prop = propagator()
    return type(prop).propagate_op_sharding_non_cached(prop, schema)  # type: ignore[no-any-return]


def full_mesh_strategies(schema: OpSchema) -> Sequence[Any] | None:
    """Every strategy that torch's own function enumerates for an op, with prices; None where it
    does not enumerate any."""
    prop = propagator()
    function = prop.op_strategy_funcs.get(schema.op)
    if function is None:
        return None
    found = function(prop._wrap_with_op_strategy(schema))
    return getattr(found, "strategies", None)


def hide_from_dynamo(function: Callable[..., Any]) -> None:
    """Let Dynamo compile neither `function` nor what it calls.

    After a graph break, DTensor's ops run eagerly inside a frame that is being compiled. Dynamo
    passes over torch's own files then; ours it would try to compile, a tenth of a second each.
    """
    skip = _eval_frame._FrameAction.SKIP
    strategy = _eval_frame._FrameExecStrategy(skip, skip)
    _eval_frame.set_code_exec_strategy(function.__code__, strategy)


# Functions of torch that run while its C++ dispatcher holds a pointer to this thread's cache of
# decisions, to put one in when it is made.
_DISPATCHER = type(DTensor._op_dispatcher)
_HOLDING_CODES = frozenset(
    (
        _DISPATCHER.unwrap_to_op_info.__code__,
        _DISPATCHER._propagate_op_sharding_dispatch_slow_path.__code__,
    )
)


def _clear_thread() -> bool:
    """Clear torch's C++ cache of decisions of this thread: only a thread itself can. False where
    torch holds on to it: a decision is under way, and asked about another op."""
    if _is_running(_HOLDING_CODES):
        return False
    _before_clearing()
    torch._C._clear_DTensor_sharding_propagator_cache()
    return True


def is_in_op() -> bool:
    """Is this thread deciding an op of torch's dispatcher, or moving operands for one?"""
    return _is_running(_HOLDING_CODES | _ASKING_CODES | {_MOVING_CODE})


def _is_running(codes: Set[CodeType]) -> bool:
    """Is one of these functions on this thread's stack?"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False


hide_from_dynamo(_clear_thread)
_before_clearing: Callable[[], None] = lambda: None  # noqa: E731

# torch's dispatcher reads this attribute once at the start of each DTensor op, in the thread that
# runs it and before it looks into that thread's cache.
_READ_BY_EACH_OP = "_custom_op_handlers"
_generation_slot: Any = _core.GenerationSlot(_READ_BY_EACH_OP, _clear_thread)
_forgetting = threading.RLock()


def before_clearing(notify: Callable[[], None]) -> None:
    """Call `notify` in each thread that is about to clear its decisions, before its next op."""
    global _before_clearing
    hide_from_dynamo(notify)
    _before_clearing = notify


def forget_decisions() -> None:
    """Clear torch's caches of decisions, in Python and in its C++ dispatcher, for every thread.

    Another thread clears its own before its next op; so does this one where torch holds on to its
    cache.
    """
    with _forgetting:
        # Never taken away again: threads may be behind that do not run an op for a long time. While
        # none is, that costs an op 113 instructions of 62,000.
        if _READ_BY_EACH_OP not in vars(_DISPATCHER):
            setattr(_DISPATCHER, _READ_BY_EACH_OP, _generation_slot)
        prop = propagator()
        # A new one, since the old one has a part for each thread.
        prop.propagate_op_sharding = decision_cache(prop.propagate_op_sharding_non_cached)
        _core.begin_generation()
    _generation_slot.catch_up()


def decision_cache(propagate: Callable[[OpSchema], OutputSharding]) -> Any:
    """torch's cache around a function that decides."""
    return _prop.LocalLRUCache(propagate)


def clear_torch_caches() -> None:
    """Forget every decision, plan and output metadata that torch holds, as in a new process."""
    forget_decisions()
    propagator()._propagate_tensor_meta_cached.cache_clear()
    FakeTensorMode.cache_clear()
    forget_plans()


def foreign_patches() -> list[str]:
    """What neither torch nor this package put where DTensor decides and redistributes."""
    prop = propagator()
    places = (
        type(prop),
        prop.propagate_op_sharding_non_cached,
        DTensor._op_dispatcher.redistribute_local_args,
        _collective_utils.redistribute_cost,
        _redistribute._gen_transform_infos,
        _redistribute.redistribute_local_tensor,
    )
    homes = ("torch", __name__.partition(".")[0])
    return [
        f"{place.__module__}.{place.__qualname__}"
        for place in map(_function, places)
        if place.__module__.partition(".")[0] not in homes
    ]


def _function(place: Any) -> Any:
    """What is called in the end."""
    while isinstance(place, functools.partial):
        place = place.func
    return place


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


def install_cost(cost: Callable[..., float], communication: Callable[..., float]) -> None:
    """Replace torch's price of a redistribution, its plans staying as they are.

    `communication` answers where torch asks whether anything is sent at all
    (``ExplicitRedistributionContext``).
    """
    for function in (cost, communication):
        hide_from_dynamo(function)
    for module in (_collective_utils, _ops_utils):
        module.redistribute_cost = cost  # type: ignore[attr-defined]
    _utils.redistribute_cost = communication  # type: ignore[attr-defined]


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


torch_redistribute = _redistribute.redistribute_local_tensor


def install_redistribute(function: Callable[..., torch.Tensor]) -> None:
    """Replace torch's execution of a redistribution, `torch_redistribute`."""
    hide_from_dynamo(function)
    _set_redistribute(function)


def installed_redistribute() -> Callable[..., torch.Tensor]:
    """What carries out redistributions now: torch's, or what was installed; without what is put
    around it while somebody watches."""
    return _carries_out


def uninstall_redistribute() -> None:
    """Undo `install_redistribute`."""
    _set_redistribute(torch_redistribute)


def _set_redistribute(function: Callable[..., torch.Tensor]) -> None:
    global _carries_out
    _carries_out = function
    if _around_redistribute is not None:
        function = _around_redistribute(function)
        hide_from_dynamo(function)
    for module in _that_redistribute():
        setattr(module, torch_redistribute.__name__, function)


def _that_redistribute() -> list[ModuleType]:
    """torch's modules that have the function by name: looked for again when modules were loaded,
    for those then have what another was given. (Looking takes 2 ms in a program's midst.)"""
    global _redistributing
    loaded = len(sys.modules)
    if _redistributing[0] != loaded:
        found = [
            module
            for name, module in list(sys.modules.items())
            if name.startswith("torch.distributed.tensor")
            and torch_redistribute.__name__ in vars(module)
        ]
        _redistributing = (loaded, found)
    return _redistributing[1]


_redistributing: tuple[int, list[ModuleType]] = (0, [])

# What carries out redistributions, and what is put around it while somebody watches.
_Redistribute = Callable[..., torch.Tensor]
_carries_out: _Redistribute = torch_redistribute
_around_redistribute: Callable[[_Redistribute], _Redistribute] | None = None


def watch_redistributions(around: Callable[[_Redistribute], _Redistribute]) -> None:
    """Put `around(function)` in the place of whichever function carries out a redistribution."""
    global _around_redistribute
    _around_redistribute = around
    _set_redistribute(_carries_out)


def unwatch_redistributions() -> None:
    """Undo `watch_redistributions`."""
    global _around_redistribute
    _around_redistribute = None
    _set_redistribute(_carries_out)


def is_redistributed_here(source: DTensorSpec, target: DTensorSpec) -> bool:
    """Does torch go on to a plan? Else it raises, or has nothing to do on this rank."""
    mesh = source.mesh
    if mesh is not target.mesh and mesh != target.mesh:
        return False
    if source.use_strided_shard_as_shard_order is None:
        return False
    try:
        for spec in (source, target):
            _utils.assert_no_mixed_partial_types(spec.placements)
    except ValueError:
        return False
    return mesh._is_current_rank_part_of_mesh()


def recorded_redistribution(
    local: torch.Tensor,
    source: DTensorSpec,
    target: DTensorSpec,
    transforms: Callable[[], str],
    is_explicit: bool,
) -> AbstractContextManager[object]:
    """What DebugMode, where it is on, notes of a redistribution: the layouts passed through."""
    mode = get_active_debug_mode()
    if mode is None:
        return nullcontext()
    return mode.record_redistribute_calls(
        local, source.placements, target.placements, transforms(), is_explicit=is_explicit
    )


def merging_disabled() -> bool:
    """Has the program forbidden to merge collectives on a flattened mesh?

    (``disable_redistribute_transform_optimization``.)
    """
    return bool(_redistribute._DISABLE_REDISTRIBUTE_TRANSFORM_OPTIMIZATION)


def merged_steps(
    infos: list[Any], source: DTensorSpec, target: DTensorSpec
) -> list[tuple[tuple[int, ...], Placement]]:
    """Steps of torch's as it carries them out, those on a flattened mesh merged: the mesh dims of
    each, and the placement after it."""
    merged = _redistribute._optimize_transform_infos(
        infos, source.mesh, source.placements, target.placements
    )
    return [
        (getattr(info, "original_mesh_dims", (info.mesh_dim,)), info.src_dst_placements[1])
        for info in merged
    ]


def forget_plans() -> None:
    """Clear the caches of torch's redistribution planners (and with them their history)."""
    torch_gen_transform_infos.cache_clear()
    _redistribute.clear_redistribute_planner_cache()


# --- what a trace reads -----------------------------------------------------------------------

# Of autograd, in this thread: the number of the node that is made next, and the node whose backward
# runs (None outside a backward).
next_autograd_number: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
autograd_node: Callable[[], Any] = torch._C._current_autograd_node

# Hits and misses of the cache in torch's C++ dispatcher, of this thread, since it was cleared.
decision_cache_stats: Callable[[], tuple[int, int]] = (
    torch._C._get_DTensor_sharding_propagator_cache_stats
)


def records_structured_trace() -> bool:
    """Does torch write a structured trace (``TORCH_TRACE``)?

    Its handler is there in any case, with a folder only where one was named.
    """
    return any(
        isinstance(handler, _torch_logging.LazyTraceHandler)
        and (handler.root_dir is not None or handler.stream is not None)
        for handler in _torch_logging.trace_log.handlers
    )


def record_artifact(name: str, payload: Callable[[], object]) -> None:
    """Put a JSON document into torch's structured trace."""
    _torch_logging.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "json"},
        payload_fn=payload,
        expect_trace_id=False,
    )


def annotate_debug_mode(text: Callable[[], str]) -> None:
    """A line among the calls that DebugMode, where it is on, has noted."""
    mode = get_active_debug_mode()
    if mode is not None:
        mode._handle_annotate(text())  # type: ignore[no-untyped-call]


# --- steps of a redistribution ----------------------------------------------------------------

# As in torch's redistribute_local_tensor; `mesh_dim` is that of a mesh or of a flattened one, and
# `shape` that of the tensor which it cuts, on this rank.


def gather(
    src: Placement, local: torch.Tensor, mesh: DeviceMesh, mesh_dim: int, shape: Sequence[int]
) -> torch.Tensor:
    """A shard, plain or strided, to Replicate."""
    return src._to_replicate_tensor(local, mesh, mesh_dim, shape)  # type: ignore[attr-defined,no-any-return]


def reduce(src: Placement, local: torch.Tensor, mesh: DeviceMesh, mesh_dim: int) -> torch.Tensor:
    """A Partial to Replicate."""
    return src._reduce_value(local, mesh, mesh_dim)  # type: ignore[attr-defined,no-any-return]


def reduce_scatter(
    src: Placement, dst: Placement, local: torch.Tensor, mesh: DeviceMesh, mesh_dim: int
) -> torch.Tensor:
    """A Partial to a plain shard."""
    return src._reduce_shard_value(local, mesh, mesh_dim, dst)  # type: ignore[attr-defined,no-any-return]


def all_to_all(
    src: Placement,
    dst: Placement,
    local: torch.Tensor,
    mesh: DeviceMesh,
    mesh_dim: int,
    shape: Sequence[int],
) -> torch.Tensor:
    """A plain shard to one of another tensor dim."""
    return src._to_new_shard_dim(local, mesh, mesh_dim, shape, dst.dim)  # type: ignore[attr-defined,no-any-return]


def chunk(dst: Placement, local: torch.Tensor, mesh: DeviceMesh, mesh_dim: int) -> torch.Tensor:
    """Replicate to a shard, plain or strided."""
    strided = isinstance(dst, StridedShard)
    cut: Any = getattr(dst, "_replicate_to_strided_shard" if strided else "_replicate_to_shard")
    return cut(local, mesh, mesh_dim, coordinate_on(mesh, mesh_dim))  # type: ignore[no-any-return]


def partition(dst: Placement, local: torch.Tensor, mesh: DeviceMesh, mesh_dim: int) -> torch.Tensor:
    """Replicate to a Partial; torch divides for a sum, and integers become floats."""
    return dst._partition_value(local, mesh, mesh_dim)  # type: ignore[attr-defined,no-any-return]


def exchange(
    local: torch.Tensor,
    received: Sequence[int],
    sent: Sequence[int],
    mesh: DeviceMesh,
    mesh_dim: int,
) -> torch.Tensor:
    """Elements of a 1-D tensor `sent` to each rank of a mesh dim, and `received` from each."""
    return _collectives.all_to_all_single(local, list(received), list(sent), (mesh, mesh_dim))


def waited(tensor: torch.Tensor) -> torch.Tensor:
    """The result of a collective, when it has come."""
    return tensor.wait() if isinstance(tensor, _collectives.AsyncCollectiveTensor) else tensor


def coordinate_on(mesh: DeviceMesh, mesh_dim: int) -> int:
    """This rank's place on a mesh dim; in LocalTensorMode an int that each rank has its own of."""
    return mesh._sym_get_coordinate(mesh_dim)  # type: ignore[return-value]


def on_each_rank(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, in LocalTensorMode run once for each rank with what that rank has."""
    return maybe_run_for_local_tensor(function)


def local_size(src: Placement, size: int, ranks: int, coordinate: int) -> int:
    """What a shard, plain or strided, leaves of `size` to the rank at `coordinate`."""
    if isinstance(src, StridedShard):
        # The offsets would be read from a tensor, which a fake one does not allow.
        return src.local_shard_size_and_offset(size, ranks, coordinate, _NO_OFFSETS)[0]
    return Shard.local_shard_size_and_offset(size, ranks, coordinate)[0]


def local_offset(size: int, ranks: int, coordinate: int) -> int:
    """Where the plain shard of the rank at `coordinate` begins."""
    return Shard.local_shard_size_and_offset(size, ranks, coordinate)[1]


_NO_OFFSETS = _placement_types._StridedShardOffsetMode.NONE


# --- flattened meshes -------------------------------------------------------------------------


def flattened_mesh(mesh: DeviceMesh, mesh_dims: tuple[int, ...]) -> DeviceMesh | None:
    """The mesh with ascending `mesh_dims` as one that was made before; None if there is none.

    Without names of the dims there can be none.
    """
    name = _flattened_names(mesh).get(mesh_dims)
    return None if name is None else mesh._get_root_mesh()._flatten_mapping[name]


def flattened_groups(mesh: DeviceMesh) -> tuple[tuple[int, ...], ...]:
    """Ascending sets of two or more mesh dims of size over 1 that there is a flattened mesh of."""
    return tuple(_flattened_names(mesh))


def groups_to_flatten(mesh: DeviceMesh) -> list[tuple[int, ...]]:
    """Ascending sets of two or more mesh dims of size over 1 that have no flattened mesh yet."""
    made = set(flattened_groups(mesh))
    active = [mesh_dim for mesh_dim in range(mesh.ndim) if mesh.size(mesh_dim) > 1]
    sets = (itertools.combinations(active, count) for count in range(2, len(active) + 1))
    return [mesh_dims for mesh_dims in itertools.chain(*sets) if mesh_dims not in made]


def flatten_dims(mesh: DeviceMesh, mesh_dims: tuple[int, ...]) -> DeviceMesh:
    """The mesh with ascending `mesh_dims`, all of size over 1, as one; made if there is none.

    To make one opens process groups: every rank of the root mesh has to come by.

    Raises:
        ShardpropError: the dims have no names, without which torch makes none.
    """
    names = mesh.mesh_dim_names
    if names is None:
        raise ShardpropError(
            f"Expected a mesh whose dims have names, to flatten its dims {mesh_dims}: torch "
            "flattens no other. Give mesh_dim_names to init_device_mesh."
        )
    found = flattened_mesh(mesh, mesh_dims)
    if found is not None:
        return found
    chosen = tuple(names[mesh_dim] for mesh_dim in mesh_dims)
    return _flatten_under_a_free_name(mesh[chosen], "_".join(chosen))


def _flatten_under_a_free_name(part: DeviceMesh, name: str) -> DeviceMesh:
    """`part` flattened under `name`, as torch would call it, or with the first number that makes
    it a name which no dim and no other group has."""
    root = part._get_root_mesh()
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    free = (n for n in itertools.chain([name], numbered) if n not in (root.mesh_dim_names or ()))
    for each in free:
        try:
            return part._flatten(each)
        except ValueError:
            # torch's, before it opens anything, where another group has the name.
            if each not in root._flatten_mapping:
                raise
    raise AssertionError("numbers do not end")


# Per mesh: how many flattened meshes its root had, of which none is ever taken away, and the names
# of those of its dims. By identity, as a mesh may equal one of another root; by name, as a
# flattened mesh would keep its root alive.
_FlattenedNames = dict[tuple[int, ...], str]
_flattened: dict[int, tuple[weakref.ref[DeviceMesh], int, _FlattenedNames]] = {}


def _flattened_names(mesh: DeviceMesh) -> _FlattenedNames:
    made = len(mesh._get_root_mesh()._flatten_mapping)
    key = id(mesh)
    known = _flattened.get(key)
    if known is not None and known[1] == made and known[0]() is mesh:
        return known[2]
    names = dict(_find_flattened(mesh)) if made else {}
    _flattened[key] = (weakref.ref(mesh, lambda _: _flattened.pop(key, None)), made, names)
    return names


def _find_flattened(mesh: DeviceMesh) -> Iterator[tuple[tuple[int, ...], str]]:
    """The flattened meshes that torch's layout query finds, with their names in the root."""
    of_root = mesh._get_root_mesh()._flatten_mapping
    active = [mesh_dim for mesh_dim in range(mesh.ndim) if mesh.size(mesh_dim) > 1]
    for count in range(2, len(active) + 1):
        for mesh_dims in itertools.combinations(active, count):
            found = _flattened_of(mesh, mesh_dims)
            if found is not None:
                yield mesh_dims, next(name for name, held in of_root.items() if held is found)


def _flattened_of(mesh: DeviceMesh, mesh_dims: tuple[int, ...]) -> DeviceMesh | None:
    """What torch's layout query finds."""
    try:
        return _redistribute._get_flattened_mesh_by_layout_impl(mesh, mesh_dims)
    except KeyError:
        # It takes only dims that come in the order of their strides.
        return None


# --- where a mesh is from ----------------------------------------------------------------------


def root_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """The mesh that a mesh was cut from or flattened in; itself if it was made as it is."""
    return mesh._get_root_mesh()


def root_dims(mesh: DeviceMesh) -> tuple[tuple[int, ...] | None, ...]:
    """For each mesh dim the ascending dims of the root mesh that it is made of: one, or those that
    were flattened into it, without those of size 1 among them. None where that cannot be told."""
    root = root_mesh(mesh)
    if root is mesh:
        return tuple((mesh_dim,) for mesh_dim in range(mesh.ndim))
    if mesh.mesh_dim_names is None:
        return (None,) * mesh.ndim
    return tuple(named_root_dims(root, name) for name in mesh.mesh_dim_names)


def named_root_dims(root: DeviceMesh, name: str) -> tuple[int, ...] | None:
    """The ascending dims of a root mesh that a name stands for: its own, or a flattened mesh's."""
    names = root.mesh_dim_names or ()
    if name in names:
        return (names.index(name),)
    flat = root._flatten_mapping.get(name)
    if flat is None:
        return None
    active = [mesh_dim for mesh_dim in range(root.ndim) if root.size(mesh_dim) > 1]
    for count in range(1, len(active) + 1):
        for mesh_dims in itertools.combinations(active, count):
            found = _flattened_of(root, mesh_dims)
            if found is not None and found._layout == flat._layout:
                return mesh_dims
    return None


# --- operations of an op -----------------------------------------------------------------------


def flop_formula(op: OpOverload) -> Callable[..., int] | None:
    """torch's count of the operations of an op, or one that a program registered with torch.

    It takes the op's arguments with tensors of any kind, and the output as ``out_val``.
    """
    from torch.utils import flop_counter

    formula: Callable[..., int] | None = flop_counter.flop_registry.get(op.overloadpacket)
    return formula


# --- sample calls -----------------------------------------------------------------------------


@contextmanager
def opinfos(sizes: Mapping[str, int]) -> Iterator[list[Any]]:
    """torch's database of sample inputs; `sizes` stand for the constants S, M, L of its modules.

    Imported here, for it takes a second.
    """
    from torch.testing._internal import common_methods_invocations as database

    kinds = ("unary", "binary", "pointwise", "reduce", "other")
    infos = [*database.op_db]
    infos += [info for kind in kinds for info in getattr(database, f"foreach_{kind}_op_db")]
    modules = [m for name, m in sys.modules.items() if name.startswith("torch.testing._internal")]
    before = [
        (vars(module), name, vars(module)[name])
        for module in modules
        for name in sizes
        if isinstance(vars(module).get(name), int)
    ]
    for constants, name, _ in before:
        constants[name] = sizes[name]
    try:
        yield infos
    finally:
        for constants, name, size in before:
            constants[name] = size


def dtensor_of(local_tensor: torch.Tensor, spec: DTensorSpec) -> DTensor:
    """What a rank holds, as a DTensor without a gradient."""
    return DTensor(local_tensor.detach(), spec, requires_grad=False)  # type: ignore[no-untyped-call]


def layout_of(
    spec: DTensorSpec,
) -> tuple[tuple[Placement, ...], tuple[tuple[int, tuple[int, ...]], ...]]:
    """The placements and the shard order of a spec, strided shards read as the spec says.

    Where they stand for a shard order they come back as plain shards in that order; if there is no
    such order, they stay, and cut from left to right.
    """
    if not spec.use_strided_shard_as_shard_order:
        return spec.placements, _plain_order(spec.shard_order)
    order = DTensorSpec._maybe_convert_StridedShard_to_shard_order(spec.placements, spec.mesh)
    if order is None:
        return spec.placements, ()
    plain = (Shard(p.dim) if isinstance(p, StridedShard) else p for p in spec.placements)
    return tuple(plain), _plain_order(order)


def _plain_order(
    order: Sequence[ShardOrderEntry] | None,
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple((entry.tensor_dim, tuple(entry.mesh_dims)) for entry in order or ())
