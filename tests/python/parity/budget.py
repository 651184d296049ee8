"""What a case costs torch, estimated from counts, so that the sampler can keep to a budget.

torch prices every combination of rules over the mesh dims, one redistribution per operand; and a
redistribution that involves an explicit shard order or a strided shard is planned by a graph search
that is a hundred times dearer. The constants are milliseconds, fitted to torch 2.13 on 2 cores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor._ops.single_dim_strategy import _ShardingPlaceholder
from torch.distributed.tensor.placement_types import Placement, _StridedShard

from .guide import Group, fill_row
from .layouts import Kind, Layout
from .registry import Rule, rule_of
from .sketch import Problem

# What every case costs; one spec of a combination; one greedy price, by mesh ndim.
_CASE_MS = 0.5
_SPEC_MS = 0.025
_PRICE_MS = {1: 0.05, 2: 0.08, 3: 0.12, 4: 0.2}
# One graph plan, by mesh ndim and by tensor ndim (5 stands for more).
_GRAPH_MS = {
    1: (0.2, 0.25, 0.3, 0.4, 0.5, 0.6),
    2: (0.5, 1.0, 1.3, 2.5, 4.0, 7.0),
    3: (2.0, 3.5, 8.0, 25.0, 60.0, 120.0),
    4: (40.0, 100.0, 300.0, 1000.0, 3000.0, 8000.0),
}
# One try of a decomposition, from the first step to the one that would redistribute.
_TRACE_MS = 1.0
# Strided shards are further states to search through.
_STRIDED_FACTOR = 3


def estimate_ms(
    problem: Problem, groups: Sequence[Group], layouts: Sequence[Layout], tied: set[int]
) -> float:
    """Estimated milliseconds of one torch decision, without its metadata propagation."""
    factors = split_factors(layouts)
    ndims = [sketch.ndim for sketch in problem.sketches()]
    total = _CASE_MS
    for group in groups:
        if group.operands:
            total += _group_ms(group, layouts, ndims, tied, factors)
    if rule_of(problem.op) is Rule.DECOMPOSITION:
        total += _TRACE_MS * _traces(layouts, ndims, len(factors))
    return total


def split_factors(layouts: Iterable[Layout]) -> list[int | None]:
    """The ways torch fills placeholders: None for Shard, else the factor of a strided shard."""
    found: dict[int | None, None] = {}
    for layout in layouts:
        for placement in layout.placements:
            if isinstance(placement, _StridedShard):
                found[int(placement.split_factor)] = None
            elif isinstance(placement, Shard):
                found[None] = None
    return list(found)


def _traces(layouts: Sequence[Layout], ndims: Sequence[int], kinds: int) -> int:
    """torch traces a decomposition for every mix of the placements seen anywhere."""
    seen = {placement for layout in layouts for placement in layout.placements}
    fixed = {p for p in seen if not isinstance(p, (Shard, _StridedShard))} | {Replicate()}
    return math.prod(len(fixed) + ndim * kinds for ndim in ndims)


def _group_ms(
    group: Group,
    layouts: Sequence[Layout],
    ndims: Sequence[int],
    tied: set[int],
    factors: list[int | None],
) -> float:
    rows = _expanded(group, factors, max((ndims[i] for i in group.operands), default=0))
    mesh = layouts[group.operands[0]].mesh
    combinations = int(len(rows) ** mesh.ndim)
    # What an op writes to keeps its layout; combinations that would change it are dropped unpriced.
    priced = 1
    for mesh_dim in range(mesh.ndim):
        priced *= sum(
            all(
                row[i] == layouts[operand].placements[mesh_dim]
                for i, operand in enumerate(group.operands)
                if operand in tied and mesh_dim < layouts[operand].mesh.ndim
            )
            for row in rows
        )
    specs = len(group.operands) + max(group.outputs, 1)
    total = combinations * specs * _SPEC_MS
    total += priced * len(group.operands) * _PRICE_MS[mesh.ndim]
    # A strided shard that encodes an order is priced as infinite, without a plan.
    planned = all(layouts[operand].kind is not Kind.STRIDED_ORDER for operand in group.operands)
    for i, operand in enumerate(group.operands):
        plans = min(_graph_plans([row[i] for row in rows], layouts[operand], planned), priced)
        dear = _STRIDED_FACTOR if layouts[operand].kind is Kind.STRIDED_VIEW else 1
        total += plans * dear * _GRAPH_MS[mesh.ndim][min(ndims[operand], 5)]
    return total


def _expanded(group: Group, factors: list[int | None], ndim: int) -> list[list[Placement]]:
    """The rows torch will combine; guessed for ops whose rule is not a single-dim one."""
    count = len(group.operands)
    rows = [fill_row((None,) * count, None)]
    if group.choices is not None:
        return [fill_row(row, None) for row in group.rows[: group.choices]] or rows
    for row in group.rows:
        has_placeholder = any(isinstance(entry, _ShardingPlaceholder) for entry in row)
        rows += [fill_row(row, factor) for factor in (factors if has_placeholder else [None])]
    if not group.rows:
        rows += [[Shard(dim)] * count for dim in range(ndim)]
    return rows


def _graph_plans(targets: Sequence[Placement], source: Layout, strided_planned: bool) -> int:
    """How many distinct plans from `source` the graph planner has to make."""
    if all(placement.is_replicate() for placement in source.placements):
        return 0
    distinct = len(set(targets))
    plain = len({t for t in targets if not isinstance(t, _StridedShard)})
    ndim = source.mesh.ndim
    match source.kind:
        case Kind.STRIDED_ORDER:
            return 0
        case Kind.ORDERED | Kind.STRIDED_VIEW:
            return int(distinct**ndim)
    return int(distinct**ndim - plain**ndim) if strided_planned else 0
