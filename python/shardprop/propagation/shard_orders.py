"""Operands that mesh dims cut in another order than a decision says.

What a strategy says of each mesh dim holds in whichever order mesh dims cut, as long as they cut
all tensors of the op in the same one. A decision says placements, which mesh dims cut from left to
right; torch compares those of operands with them, and not the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch

from .. import _core, _torch
from .._torch import DTensorSpec, OpSchema, OutputSharding
from ..corrections.shard_order import SHARD_ORDER
from ..errors import RefusedPlacementError
from ..model.op_traits import traits_of

__all__ = ["from_left_to_right", "has_own_order", "in_one_order"]

# Mesh dims, the first one first; None: from left to right.
Order = Sequence[int] | None

# Of their operand they read no values; optimizers make their states by them.
_MADE_LIKE = tuple(
    getattr(torch.ops.aten, f"{kind}_like").default for kind in ("empty", "zeros", "ones", "full")
)


def has_own_order(schema: OpSchema) -> bool:
    """Is an operand in another shard order than the default one?"""
    kwargs = schema.kwargs_schema
    return _core.has_own_order(schema.args_schema) or (
        bool(kwargs) and _core.has_own_order((*kwargs.values(),))
    )


def from_left_to_right(schema: OpSchema) -> OpSchema:
    """The call as if the order of what stays where it is (what the op writes into or views, or does
    not read) were the default one: a decision then takes what is in that order for what need not
    move, and prices what is in another by that of mesh dims with other names.

    As it is where what stays is in several orders: that is refused once it is decided.
    """
    try:
        orders = _orders(schema)
    except RefusedPlacementError:
        return schema
    args = _each_in(_renamed, orders, schema.args_schema)
    kwargs = {name: _each_in(_renamed, orders, x) for name, x in schema.kwargs_schema.items()}
    return OpSchema(schema.op, args, kwargs, schema.schema_info)


def in_one_order(schema: OpSchema, answer: OutputSharding) -> OutputSharding:
    """The decision with all tensors, or those of each element of a list op, in one shard order:
    that of what stays where it is, or else the default one.

    Args:
        schema: The call.
        answer: What is decided of `from_left_to_right`.

    Raises:
        RefusedPlacementError: what stays is in several orders.
    """
    orders = _orders(schema)
    for name, item in schema.kwargs_schema.items():
        if isinstance(item, DTensorSpec) and _each_in(_cut_in, orders, item) is not item:
            raise _refused(schema, f"{name}, which is not moved, in the default shard order", item)
    asked = answer.redistribute_schema or schema
    args = _each_in(_cut_in, orders, asked.args_schema)
    pairs = zip(_specs(schema.args_schema), _specs(args), strict=True)
    moved = answer.use_val_from_redistribute_schema or any(src != dst for src, dst in pairs)
    moving = OpSchema(asked.op, args, schema.kwargs_schema, schema.schema_info)
    return replace(
        answer,
        output_spec=_each_in(_cut_in, orders, answer.output_spec),
        redistribute_schema=moving if moved else None,
        needs_redistribute=moved,
    )


def _staying(schema: OpSchema) -> tuple[list[int], list[str]]:
    """Positions and names of the arguments that the op writes into, or views (unless torch tells
    ranks the sizes of their views, which are those of the default order), or makes another like."""
    traits = traits_of(schema.op)
    if schema.op in _MADE_LIKE:
        return [0], []
    viewed = () if traits.rewrites_arguments else traits.viewed
    positions = [at for at in (*traits.written, *viewed) if at < len(schema.args_schema)]
    return positions, [name for name in traits.out_arguments if name in schema.kwargs_schema]


def _orders(schema: OpSchema) -> Sequence[Order]:
    """In which order mesh dims cut the tensors of a call; of a list op, for each element.

    Raises:
        RefusedPlacementError: what stays is in several orders.
    """
    positions, names = _staying(schema)
    staying = [schema.args_schema[at] for at in positions]
    staying += [schema.kwargs_schema[name] for name in names]
    lists = [item for item in staying if isinstance(item, (list, tuple)) and item]
    if traits_of(schema.op).is_list_op and lists:
        return [_common_order(schema, _specs(each)) for each in zip(*lists, strict=False)]
    return [_common_order(schema, _specs(staying))]


def _specs(item: Any) -> list[DTensorSpec]:
    return [each for each in _torch.tree_leaves(item) if isinstance(each, DTensorSpec)]


def _common_order(schema: OpSchema, specs: Sequence[DTensorSpec]) -> Order:
    """Mesh dims in an order in which they cut all of these; of several the one that is nearest to
    the default one. None: any.

    Raises:
        RefusedPlacementError: there is none.
    """
    follows = {
        (after, before)
        for spec in specs
        for entry in spec.shard_order or ()
        for before, after in pairwise(entry.mesh_dims)
    }
    if not follows:
        return None
    left = list(range(max(spec.mesh.ndim for spec in specs)))
    order: list[int] = []
    while left:
        free = (dim for dim in left if not any((dim, other) in follows for other in left))
        following = next(free, None)
        if following is None:
            raise _refused(schema, "all that it writes into or views in one shard order", *specs)
        left.remove(following)
        order.append(following)
    return order


def _each_in(
    change: Callable[[Order, DTensorSpec], DTensorSpec], orders: Sequence[Order], item: Any
) -> Any:
    """Specs changed by the order, or, in a list, by the order of their element where there are
    several. (No dim is cut of what elements share.)"""
    if isinstance(item, DTensorSpec):
        return change(orders[0] if len(orders) == 1 else None, item)
    if type(item) not in (tuple, list):
        return item
    if len(item) == len(orders) and not any(isinstance(each, (tuple, list)) for each in item):
        pairs = zip(orders, item, strict=True)
        return type(item)(_each_in(change, [order], each) for order, each in pairs)
    return type(item)(_each_in(change, orders, each) for each in item)


def _cut_in(order: Order, spec: DTensorSpec) -> DTensorSpec:
    """The spec with its mesh dims cutting in this order."""
    if spec.shard_order is None:
        return spec  # of strided shards, which say its order
    default = _torch.default_shard_order(spec.placements)
    return _with_order(spec, [sorted(e.mesh_dims, key=_rank(order)) for e in default])


def _renamed(order: Order, spec: DTensorSpec) -> DTensorSpec:
    """The spec with the mesh dims that cut a tensor dim named so that they cut from left to right
    if they cut in this order."""
    if spec.shard_order is None:
        return spec
    cuts = []
    for entry in spec.shard_order:
        in_order = sorted(entry.mesh_dims, key=_rank(order))
        named = dict(zip(in_order, sorted(entry.mesh_dims), strict=True))
        cuts.append([named[mesh_dim] for mesh_dim in entry.mesh_dims])
    return _with_order(spec, cuts)


def _rank(order: Order) -> Callable[[int], int]:
    """Tells the place of a mesh dim in the order; those of another mesh come last."""
    known = {mesh_dim: at - len(order) for at, mesh_dim in enumerate(order)} if order else {}
    return lambda mesh_dim: known.get(mesh_dim, mesh_dim)


def _with_order(spec: DTensorSpec, cuts: Sequence[Sequence[int]]) -> DTensorSpec:
    """The spec with these mesh dims cutting its tensor dims; itself where they do."""
    wanted = tuple(
        entry._replace(mesh_dims=tuple(mesh_dims))
        for entry, mesh_dims in zip(spec.shard_order, cuts, strict=True)
    )
    return spec if spec.shard_order == wanted else _torch.with_shard_order(spec, wanted)


def _refused(schema: OpSchema, expected: str, *found: DTensorSpec) -> RefusedPlacementError:
    return RefusedPlacementError(
        f"{schema.op}: Expected {expected}, got {', '.join(map(str, found))}. torch alone "
        f"{SHARD_ORDER.fault} Redistribute it to Replicate() and back before the call."
    )
