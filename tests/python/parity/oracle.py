"""Both answers to a case: torch's own propagation, and the same entry with shardprop enabled.

torch's decision is defined as the one it takes with fresh planner caches. Its graph planner
remembers the reduce ops and strided shards of earlier calls, so what it answers otherwise depends
on history.
"""

from __future__ import annotations

from collections.abc import Callable

from torch.distributed.tensor import _redistribute
from torch.distributed.tensor._op_schema import OpSchema, OutputSharding
from torch.distributed.tensor._sharding_prop import ShardingPropagator

from ..quiet import quiet
from .case import Case
from .meshes import ensure_process_group
from .outcome import Normalizer, Outcome, error_outcome
from .registry import propagator

# Taken before anything can replace them.
_TORCH_PROPAGATE = ShardingPropagator.propagate_op_sharding_non_cached
_TORCH_GEN_TRANSFORM_INFOS = _redistribute._gen_transform_infos


def forget_history() -> None:
    """Empties the caches that make torch's planner depend on earlier decisions."""
    _redistribute.clear_redistribute_planner_cache()
    _TORCH_GEN_TRANSFORM_INFOS.cache_clear()


def torch_decide(case: Case) -> Outcome:
    """torch's answer; call it while shardprop is disabled."""
    forget_history()
    return _decide(case, lambda schema: _TORCH_PROPAGATE(propagator(), schema))


def shardprop_decide(case: Case) -> Outcome:
    """shardprop's answer; call it while shardprop is enabled."""
    # Where shardprop leaves a decision to torch, it is torch's fresh answer that we compare.
    forget_history()
    return _decide(case, lambda schema: propagator().propagate_op_sharding_non_cached(schema))


def _decide(case: Case, propagate: Callable[[OpSchema], OutputSharding]) -> Outcome:
    ensure_process_group()
    schema = case.schema()
    names = Normalizer()
    with quiet():
        try:
            answer = propagate(schema)
        except Exception as error:  # torch's errors are part of its answer
            return error_outcome(error)
    return names.sharding(answer, schema)
