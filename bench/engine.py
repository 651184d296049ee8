"""The engine alone, ours and torch's, on one question.

Both get the same specs, output metadata and rows of the rule, each in the form in which its caller
hands them over (torch: wrapped into strategies; we: a list of specs), so that neither the rule
function nor the wrapping is timed. Both answer with the placements of the chosen strategy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._ops.single_dim_strategy import _expand_single_dim_strategy_to_mesh
from torch.distributed.tensor._sharding_prop import _select_min_cost_strategy
from torch.distributed.tensor.placement_types import _StridedShard

import shardprop
from shardprop import _torch
from shardprop.propagation.core_call import answer, prepare
from shardprop.rules import torch_registry
from shardprop.rules.rule import rule_of_entry

aten = torch.ops.aten
R, P, S = Replicate(), Partial(), Shard
Answer = tuple[tuple[Placement, ...], ...]


def spec_of(
    mesh: DeviceMesh,
    shape: Sequence[int],
    placements: Sequence[Placement],
    dtype: torch.dtype = torch.float32,
) -> DTensorSpec:
    tensor = torch.empty(*shape, dtype=dtype, device="meta")
    return DTensorSpec(
        mesh,
        tuple(placements[: mesh.ndim]),
        tensor_meta=TensorMeta(tensor.shape, tensor.stride(), tensor.dtype),
        # As view ops make them: plain shards with gaps, not an encoded shard order.
        use_strided_shard_as_shard_order=False,
    )


@dataclass(frozen=True)
class Engine:
    """One question, and both ways to answer it."""

    torch_alone: Callable[[], Answer]
    shardprop: Callable[[], Answer]
    forget: Callable[[], None]


def engine(op: Any, args: tuple[Any, ...], rows: list[list[Any]] | None = None) -> Engine:
    """The question of `op` on `args`; `rows` where torch has no single-dim rule."""
    schema = torch_registry.op_schema(op, args, {})
    meta = _torch.propagator()._propagate_tensor_meta_non_cached(schema)
    strategy_schema = _torch.propagator()._wrap_with_op_strategy(schema)
    rule = torch_registry.single_dim_entry(op) or torch_registry.single_dim_entry(aten.mm.default)
    assert rule is not None
    if rows is None:
        rows = rule.func(op, strategy_schema.args_meta, strategy_schema.kwargs_meta)
    fixed = dataclasses.replace(rule, func=lambda *_: list(rows))
    listed = rule_of_entry(op, fixed)
    question = listed.question(schema, meta)
    assert question.mesh is not None
    mesh = question.mesh

    def torch_alone() -> Answer:
        expand = _expand_single_dim_strategy_to_mesh(mesh, strategy_schema, fixed, meta)
        strategies = expand(op, strategy_schema.args_meta, strategy_schema.kwargs_meta)
        chosen = _select_min_cost_strategy(strategies, schema)
        assert chosen.input_specs is not None
        return tuple(spec.placements for spec in chosen.input_specs)

    prepared = prepare(question, listed)

    def ours() -> Answer:
        return answer(prepared).operands

    return Engine(torch_alone, ours, shardprop.clear_caches)


def spread(rotation: int) -> list[Placement]:
    """Placements that disagree between operands: shards, a partial and a replica in turn."""
    cycle: list[Placement] = [S(0), S(1), P, R]
    return cycle[rotation:] + cycle[:rotation]


def strided(dim: int, split_factor: int) -> _StridedShard:
    return _StridedShard(dim, split_factor=split_factor)
