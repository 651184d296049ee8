"""torch's own strategies for operands that may come in several layouts, without their costs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, Replicate
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema, OpSpec, OpStrategy
from torch.distributed.tensor._ops import single_dim_strategy, utils

from shardprop import _torch
from shardprop.metadata import output_meta
from shardprop.rules import torch_registry

from ...narrow import known

Layout = tuple[Placement, ...]
# Layouts of the outputs (None for an absent one) and of the operands.
Found = tuple[tuple[Layout | None, ...], tuple[Layout, ...]]


def meta_of(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> TensorMeta:
    tensor = torch.empty(tuple(shape), dtype=dtype, device="meta")
    return TensorMeta(tensor.shape, tensor.stride(), tensor.dtype)


@contextmanager
def many_sources() -> Iterator[None]:
    """torch reads the kinds of shard that placeholders become off operands with one layout each.
    Here it reads them off all layouts of all operands; and it makes no prices, which is where most
    of its time goes."""
    prices, kinds = utils.generate_redistribute_costs, single_dim_strategy._get_unique_placements
    utils.generate_redistribute_costs = _no_prices
    single_dim_strategy._get_unique_placements = _placements_among
    try:
        yield
    finally:
        utils.generate_redistribute_costs = prices
        single_dim_strategy._get_unique_placements = kinds


def _no_prices(src_strategy: OpStrategy, dst_spec: DTensorSpec) -> list[float]:
    return [0.0] * len(src_strategy.strategies)


def _placements_among(op_schema: OpSchema) -> set[Placement]:
    given = [*op_schema.args_schema, *op_schema.kwargs_schema.values()]
    leaves = torch.utils._pytree.tree_leaves(given)
    strategies = [leaf for leaf in leaves if isinstance(leaf, OpStrategy)]
    return {p for each in strategies for s in each.strategies for p in s.output_spec.placements}


class Wrapped:
    """A call with a strategy of several layouts for each tensor.

    Args:
        op: The op.
        mesh: The mesh.
        args: Arguments with TensorMeta in place of tensors.
        sources: Per tensor its layouts.
    """

    def __init__(
        self,
        op: Any,
        mesh: DeviceMesh,
        args: Sequence[Any],
        sources: Sequence[Sequence[Layout]],
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.op = op
        self.mesh = mesh
        self._sources = iter(sources)
        self._strategies: list[OpStrategy] = []
        specs, wrapped = self._walk(tuple(args))
        kwargs_of = {name: self._walk(value) for name, value in (kwargs or {}).items()}
        info = torch_registry.op_schema_info(op)
        plain = {name: pair[0] for name, pair in kwargs_of.items()}
        self.meta = output_meta(OpSchema(op, specs, plain, schema_info=info))
        strategies = {name: pair[1] for name, pair in kwargs_of.items()}
        self.schema = OpSchema(op, wrapped, strategies, schema_info=info)

    def _walk(self, item: Any) -> tuple[Any, Any]:
        """The item with a spec, and with a strategy, in place of each tensor."""
        if isinstance(item, TensorMeta):
            specs = [DTensorSpec(self.mesh, p, tensor_meta=item) for p in next(self._sources)]
            self._strategies.append(OpStrategy([OpSpec(spec) for spec in specs]))
            return specs[0], self._strategies[-1]
        if type(item) in (list, tuple):
            pairs = [self._walk(x) for x in item]
            return type(item)(p[0] for p in pairs), type(item)(p[1] for p in pairs)
        return item, item

    def expanded(self) -> set[Found]:
        """What the expansion of torch's single-dim rule keeps."""
        rule = known(torch_registry.single_dim_entry(self.op))
        expand = single_dim_strategy._expand_single_dim_strategy_to_mesh(
            self.mesh, self.schema, rule, self.meta
        )
        try:
            strategy = expand(self.op, self.schema.args_meta, self.schema.kwargs_meta)
        except RuntimeError as error:  # none is left
            assert "in-place" in str(error) or "strateg" in str(error), error
            return set()
        return {*map(_found, strategy.strategies)}

    def followed(self) -> list[Found]:
        """What torch's full-mesh strategy makes of the sources."""
        strategy = _torch.propagator().op_strategy_funcs[self.op](self.schema)
        return [*map(_found, strategy.strategies)]


def _found(strategy: OpSpec) -> Found:
    outputs = strategy.output_specs
    listed = outputs if isinstance(outputs, (list, tuple)) else [] if outputs is None else [outputs]
    return (
        tuple(None if spec is None else without_masks(spec.placements) for spec in listed),
        tuple(without_masks(spec.placements) for spec in strategy.input_specs or ()),
    )


def without_masks(placements: Sequence[Placement]) -> Layout:
    """Each call makes masks of its own; they are equal if they mask the same."""
    return tuple(repr(p) if type(p).__name__ == "_MaskPartial" else p for p in placements)  # type: ignore[misc]


def union_over_firsts(
    op: Any,
    mesh: DeviceMesh,
    args: Sequence[Any],
    sources: Sequence[Sequence[Layout]],
    kwargs: dict[str, Any] | None = None,
) -> set[Found]:
    """torch takes the first layout of each operand for the one it has; so each is first in turn,
    where it makes a difference: the operand may be too small for a shard that it has."""
    found: set[Found] = set()
    lenient = known(torch_registry.single_dim_entry(op)).allow_uneven_sharding
    with many_sources():
        for firsts in itertools.product(*(s if lenient else s[:1] for s in sources)):
            ordered = [
                [first, *(x for x in layouts if x != first)]
                for first, layouts in zip(firsts, sources, strict=True)
            ]
            found |= Wrapped(op, mesh, args, ordered, kwargs).expanded()
    return found


def replicated(mesh: DeviceMesh) -> Layout:
    return (Replicate(),) * mesh.ndim
