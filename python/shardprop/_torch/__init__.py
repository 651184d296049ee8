"""The adapter: the ONLY package that touches private names and attributes of torch.

One file per theme. What differs between torch versions, such as a private function that was moved
or renamed, is adapted in `version`, whose docstring has an example and the steps; the rest of the
package gets plain functions and constants.
"""

from . import names_check  # raises where this torch has not the names that are imported below

# isort: split
from . import core_setup  # runs once: the core must know torch's types before anything asks it
from .cache_keys import settle_cache_key
from .caches import bound_decisions, clear_torch_caches, decision_cache_stats
from .collectives import (
    ALL_GATHER_OP,
    ALL_REDUCE_OP,
    REDUCE_SCATTER_OP,
    WAIT_OP,
    all_gather_single,
    all_reduce,
    all_to_all,
    all_to_all_single,
    begins_collective,
    below_autograd,
    below_versions,
    chunk,
    exchange,
    gather,
    is_collective,
    is_waited_for,
    local_offset,
    local_size,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    shard_dim_alltoall,
    wait_tensor,
    waited,
    waits_for_collective,
)
from .compiling import are_we_tracing, hide_from_dynamo, may_be_symbolic, plans_for_any_rank
from .decompositions import (
    decomposition_mesh,
    decomposition_of,
    decomposition_tree_map,
    ensure_decomposition_schema_info,
    has_decomposition,
    known_decomposition,
    registered_decomposition,
)
from .dispatch import (
    MovedOperand,
    handler_around_propagation,
    handler_instead,
    handlers,
    moved_for,
    ops_handled_instead,
)
from .dtensor_methods import (
    install_methods,
    torch_redistribute_back,
    torchs_methods,
    uninstall_methods,
    watched_redistribute,
)
from .dtensors import (
    COMPILED_MODULE,
    dtensor_of,
    local_of,
    mark_as_parameter,
    moved_to,
    other_tensors,
    spec_of,
    table_with,
    version_of,
    without_compile_wrapper,
)
from .flattened import (
    flatten_dims,
    flatten_mesh,
    flattened_groups,
    flattened_mesh,
    flattened_meshes,
    groups_to_flatten,
)
from .from_local import (
    install_from_local,
    spec_of_local,
    torch_from_local,
    uninstall_from_local,
    wrapped_local,
)
from .generations import (
    before_clearing,
    forget_decisions,
    forget_own_decisions,
    is_in_op,
    times_forgotten,
)
from .handlers import (
    ARGMAX_MOVES_NOTHING,
    HANDLED_BY_US,
    MEANT,
    RESHAPED_IN_PLACE,
    UNSCALE,
)
from .known import KNOWN, is_known, release
from .local_steps import LocalStep, local_step, local_steps
from .mesh import (
    coordinate_in,
    coordinate_on,
    coordinates_of_ranks,
    from_first_rank,
    has_groups,
    mesh_itself,
    mesh_of,
    mesh_without_groups,
    named_root_dims,
    real_mesh,
    root_dims,
    root_mesh,
    world,
)
from .metadata import VALUES_NEEDED, fake_mode_lock, torch_output_meta, validate_meta_count
from .modes import (
    as_dispatched,
    autocast_state,
    dispatch_state,
    fake_kernel_state,
    has_global_hooks,
    is_autocast_on,
    is_permissive_or_strict,
    is_profiling,
    is_saving_hooked,
    kernel_state,
    kernels_allowed,
    no_dispatch,
    no_mode_dispatch,
    no_modes,
    no_torch_function,
    outside_dispatch,
    python_chooses_kernels,
    refused_redistribution,
    without_autocast,
    without_random_state,
)
from .op_outputs import wrapped
from .ops import (
    all_ops,
    comes_apart_above,
    flop_formula,
    function_schema,
    has_autocast_kernel,
    has_cpu_kernel,
    has_custom_fake_kernel,
    has_derivative,
    has_metadata_kernel,
    overload_of_definition,
    takes_numbers_as_tensors,
)
from .optimizers import (
    as_on_locals,
    goes_one_by_one,
    held_by_rank,
    install_steps,
    may_step_on_locals,
    step_conditions,
    uninstall_steps,
    versions_of,
)
from .partition import INTEGERS_MADE_PENDING, partition
from .patches import foreign_patches, has_foreign_handlers
from .placements import (
    are_plain,
    are_told_by_value,
    has_strided,
    is_partial,
    is_shard,
    is_strided,
)
from .planner import (
    forces_a_planner,
    forces_graph_plan,
    forget_plans,
    graph_plan_wanted,
    merged_steps,
    merging_disabled,
)
from .pricing import (
    TransformInfo,
    UnmergedTransformInfo,
    index_of_least_cost,
    install_cost,
    install_plans,
    local_gigabytes,
    mesh_topology,
    torch_gen_transform_infos_non_cached,
    torch_redistribute_cost,
    transition_cost,
    uninstall_pricing,
)
from .propagation import (
    decision_cache,
    install_propagation,
    installed_propagation,
    propagate,
    propagator,
    torch_propagate,
    torch_propagate_with_meta,
    uninstall_propagation,
    watched_propagation,
)
from .put_right import put_back, put_right
from .ranks import (
    RanksRaise,
    all_ranks_at_once,
    as_one_tensor,
    in_local_tensor_mode,
    int_of_ranks,
    make_fake_process_group,
    no_local_tensors,
    on_each_rank,
    tensors_of_ranks,
)
from .redistribution import (
    install_redistribute,
    installed_redistribute,
    is_redistribute_torchs,
    is_redistributed_here,
    recorded_redistribution,
    torch_redistribute,
    uninstall_redistribute,
    unwatch_redistributions,
    watch_redistributions,
)
from .registries import (
    RegistryEntries,
    before_registrations,
    came_with_torch,
    elementwise_overload,
    full_mesh_rule_of,
    full_mesh_strategies,
    op_schema_info,
    ops_with_a_rule,
    propagation_rule_of,
    registry_entries,
    set_registry_entries,
    single_dim_rule_of,
    strategy_schema,
)
from .rewrites import ArgumentRewrites, argument_rewrites, with_global_singletons, with_local_shape
from .sampling import opinfos
from .specs import (
    contiguous_meta,
    decoded_layout,
    default_shard_order,
    has_default_order,
    is_shardable,
    local_matrix,
    local_shape,
    make_spec,
    meta_of,
    order_of_strided,
    with_shard_order,
)
from .stand_ins import STAND_INS
from .steady import is_own, is_plain, nobody_watches
from .symbolic import (
    DataDependentError,
    free_symbols,
    split_factor_has_hint,
    split_factors_match,
    statically_known_true,
)
from .to_local import (
    install_to_local,
    source_of,
    torch_gradient_of_local,
    uninstall_to_local,
)
from .tracing import (
    annotate_debug_mode,
    autograd_node,
    autograd_number,
    next_autograd_number,
    record_artifact,
    records_structured_trace,
)
from .trees import tree_flatten, tree_leaves, tree_map, tree_unflatten
from .types import (
    REDUCE_OPS,
    DeviceMesh,
    DTensor,
    DTensorSpec,
    FakeTensor,
    FakeTensorMode,
    IntLike,
    MaskPartial,
    NormPartial,
    OpOverload,
    OpOverloadPacket,
    OpSchema,
    OpSpec,
    OpStrategy,
    OutputSharding,
    Partial,
    Placement,
    Replicate,
    RuntimeSchemaInfo,
    Shard,
    ShardingPlaceholder,
    ShardOrderEntry,
    SingleDimStrategyInfo,
    StridedShard,
    SymInt,
    TensorMeta,
    TorchDispatchMode,
    mask_partial,
    norm_partial,
)
from .version import IS_215_OR_LATER
from .written_views import WRITTEN_VIEW, watch_moved_views
