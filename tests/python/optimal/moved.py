"""What a decision moves, and what that costs under a topology by our plans and by torch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSchema, OutputSharding
from torch.distributed.tensor._ops._math_ops import _NormPartial
from torch.distributed.tensor.placement_types import _MaskPartial, _StridedShard
from torch.utils import _pytree as pytree

from shardprop import ShardpropError, _core
from shardprop.propagation.propagator import torch_planner
from shardprop.redistribution.optimal_planner import ExactPlanner, steps_of

from .core import total_of

__all__ = ["Prices", "moved"]

Pair = tuple[DTensorSpec, DTensorSpec]


def moved(schema: OpSchema, decision: OutputSharding) -> list[Pair]:
    """The redistributions that torch's dispatcher makes: of positional arguments alone."""
    wanted = decision.redistribute_schema
    if not decision.needs_redistribute or wanted is None:
        return []
    pairs = zip(
        pytree.tree_leaves(list(schema.args_schema)),
        pytree.tree_leaves(list(wanted.args_schema)),
        strict=False,  # numbers may be rewritten to lists of other lengths, behind all tensors
    )
    return [
        (given, asked)
        for given, asked in pairs
        if isinstance(given, DTensorSpec) and isinstance(asked, DTensorSpec) and given != asked
    ]


@dataclass
class Prices:
    """Picoseconds under one topology, or why there is no price; each pair of specs once."""

    planner: ExactPlanner
    _ours: dict[object, int | str] = field(default_factory=dict)
    _torchs: dict[object, int | str] = field(default_factory=dict)

    def ours(self, pairs: list[Pair]) -> int | str:
        """By the plans of policy `optimal`."""
        return _total(pairs, self._ours, self._our_plan)

    def torchs(self, pairs: list[Pair]) -> int | str:
        """By torch's real plans, its collectives merged as torch merges them."""
        return _total(pairs, self._torchs, self._torch_plan)

    def _our_plan(self, src: DTensorSpec, dst: DTensorSpec) -> int | str:
        steps = self.planner.steps(src, dst)
        return "there is no plan" if steps is None else total_of(steps).cost_ps

    def _torch_plan(self, src: DTensorSpec, dst: DTensorSpec) -> int | str:
        steps = torch_planner().merged(src, dst)
        model = self.planner.models.of(src.mesh)
        found, priced, followed = _core.price_steps_of(model, src, dst, steps)
        if found:
            return total_of(steps_of(priced)).cost_ps
        if followed == len(steps):
            return "torch's plan ends in another shard order"
        before = steps_of(priced)[-1].after.placements if priced else src.placements
        return f"torch's plan has a step that is no move: {_why(before, *steps[followed])}"


def _why(before: Sequence[Placement], mesh_dims: tuple[int, ...], after: Placement) -> str:
    """What a step does that moves wrong data, by the first of these that fits."""
    special = (_MaskPartial, _NormPartial)
    involved = [*(before[m] for m in mesh_dims), after]
    if any(isinstance(p, special) for p in involved):
        return "it makes, merges or converts a masked or a norm partial"
    if any(isinstance(p, special) for p in before):
        return "it moves data that has yet to be masked or rooted"
    if any(isinstance(p, _StridedShard) for p in involved):
        return "it moves a strided shard other than by a gather or a chunk of its own"
    if len(mesh_dims) > 1:
        return "it merges uneven shards"
    return f"{type(before[mesh_dims[0]]).__name__} -> {type(after).__name__}"


PriceOf = Callable[[DTensorSpec, DTensorSpec], int | str]


def _total(pairs: list[Pair], known: dict[object, int | str], price: PriceOf) -> int | str:
    total = 0
    for src, dst in pairs:
        key = _key(src, dst)
        found = known.get(key) if key else None
        if found is None:
            found = _priced(src, dst, price)
            if key:
                known[key] = found
        if isinstance(found, str):
            return found
        total += found
    return total


def _priced(src: DTensorSpec, dst: DTensorSpec, price: PriceOf) -> int | str:
    try:
        return price(src, dst)
    except ShardpropError as error:
        message = str(error)
        return "there is no plan" if message.startswith("No plan") else message[:60]
    except (_core.Unsupported, AssertionError, RuntimeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:50]}"


def _key(src: DTensorSpec, dst: DTensorSpec) -> object:
    """None where a placement is no key."""
    try:
        ends = _core.spec_key(src), _core.spec_key(dst)
    except _core.Unsupported:
        return None
    return (id(src.mesh), *ends) if all(ends) else None
