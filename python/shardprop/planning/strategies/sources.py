"""The layouts in which an operand may come: as they are given, or all there are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..._torch import (
    DeviceMesh,
    DTensorSpec,
    OpOverload,
    OpStrategy,
    Placement,
    Replicate,
    Shard,
    StridedShard,
    TensorMeta,
    is_partial,
    is_strided,
    make_spec,
)
from ...errors import ShardpropError
from ...model.placements import Placements
from ...model.spec_checks import refuse_mixed_partials
from .call_template import CallTemplate, refuse_order

__all__ = ["check_count", "kinds_among", "read_layouts", "read_sources"]

# Of an operand of which nothing is said; more are no use to anybody.
_MOST_PLAIN_LAYOUTS = 4096


def read_sources(call: CallTemplate, sources: Any) -> list[list[Placements]]:
    """Per operand its layouts.

    Raises:
        ShardpropError: not one entry for each operand, none or too many layouts of one, or a layout
            that the operand cannot have; the message names the operand.
    """
    operands = call.operand_metas
    if sources is None:
        sources = [None] * len(operands)
    check_count(call.op, sources, len(operands))
    return [
        _of_operand(f"{call.op}, sources[{k}]", call.mesh, meta, own, asked)
        for k, (meta, own, asked) in enumerate(zip(operands, call.own, sources, strict=True))
    ]


def check_count(op: OpOverload, sources: Any, operands: int) -> None:
    """Are the sources one entry for each operand?

    Raises:
        ShardpropError: no.
    """
    if not isinstance(sources, (list, tuple)) or len(sources) != operands:
        got = len(sources) if isinstance(sources, (list, tuple)) else repr(sources)
        raise ShardpropError(
            f"{op}, sources: Expected layouts (or None) for each of {operands} operands, got {got}."
        )


def _of_operand(
    where: str, mesh: DeviceMesh, meta: TensorMeta, own: Sequence[Placements] | None, asked: Any
) -> list[Placements]:
    if asked is None:
        if own is None:
            return _all_plain(where, mesh, len(meta.shape))
        asked = own
    return read_layouts(where, mesh, meta, asked)


def read_layouts(where: str, mesh: DeviceMesh, meta: TensorMeta, asked: Any) -> list[Placements]:
    """Layouts of a tensor as a program gives them: placements or specs, or the OpStrategy of the op
    that makes the tensor (of several outputs, with the number of the output).

    Raises:
        ShardpropError: none at all, or one that the tensor cannot have.
    """
    if isinstance(asked, OpStrategy):
        asked = _of_output(where, asked, None)
    elif isinstance(asked, (list, tuple)) and len(asked) == 2 and isinstance(asked[0], OpStrategy):
        asked = _of_output(where, *asked)
    if not isinstance(asked, (list, tuple)) or (asked and isinstance(asked[0], Placement)):
        raise ShardpropError(f"{where}: Expected a sequence of layouts, got {asked!r}.")
    if not asked:
        raise ShardpropError(f"{where}: Expected a layout at least, got none.")
    known: set[Placement] = set()
    mesh_dims = mesh.ndim
    return [_layout(where, i, mesh, mesh_dims, meta, x, known) for i, x in enumerate(asked)]


def _all_plain(where: str, mesh: DeviceMesh, tensor_dims: int) -> list[Placements]:
    if (tensor_dims + 1) ** mesh.ndim > _MOST_PLAIN_LAYOUTS:
        raise ShardpropError(
            f"{where}: Expected layouts, got None: there are {(tensor_dims + 1) ** mesh.ndim} "
            "plain ones."
        )
    kinds = [Replicate(), *(Shard(dim) for dim in range(tensor_dims))]
    return [*itertools.product(kinds, repeat=mesh.ndim)]


def _layout(
    of: str,
    index: int,
    mesh: DeviceMesh,
    mesh_dims: int,
    meta: TensorMeta,
    asked: Any,
    known: set[Placement],
) -> Placements:
    """The layout; `known` are placements that were found to be good, which Python takes its time to
    find out."""
    where = f"{of}[{index}]"
    if type(asked) is not tuple and isinstance(asked, DTensorSpec):
        if asked.mesh is not mesh and asked.mesh != mesh:
            raise ShardpropError(
                f"{where}: Expected a spec on the mesh of the op, {mesh}, got {asked.mesh}."
            )
        refuse_order(where, asked)
        asked = asked.placements
    if not isinstance(asked, (list, tuple)):
        raise ShardpropError(f"{where}: Expected placements or a DTensorSpec, got {asked!r}.")
    if len(asked) != mesh_dims:
        raise ShardpropError(
            f"{where}: Expected {mesh_dims} placements, one for each mesh dim, got {len(asked)}."
        )
    layout = tuple(asked)
    for mesh_dim, placement in enumerate(layout):
        if placement not in known:
            _check_placement(where, meta, mesh_dim, placement)
            known.add(placement)
    if sum(map(is_partial, layout)) > 1:
        refuse_mixed_partials(where, make_spec(mesh, layout, meta))
    return layout


def _of_output(where: str, made: OpStrategy, output: Any) -> list[Any]:
    """The specs of an op's only output (None), or of one of several."""
    found = []
    for strategy in made.strategies:
        specs: Any = strategy.output_specs
        several = isinstance(specs, (list, tuple))
        if several and (type(output) is not int or not 0 <= output < len(specs)):
            raise ShardpropError(
                f"{where}: Expected (strategy, number of an output from 0 to {len(specs) - 1}), "
                f"got number {output!r}."
            )
        if not several and output not in (None, 0):
            raise ShardpropError(f"{where}: Expected an op of several outputs, got one of one.")
        found.append(specs[output] if several else specs)
    return found


def _check_placement(where: str, meta: TensorMeta, mesh_dim: int, placement: Any) -> None:
    if not isinstance(placement, Placement):
        raise ShardpropError(
            f"{where}: Expected a placement on mesh dim {mesh_dim}, got {placement!r}."
        )
    if isinstance(placement, (Shard, StridedShard)) and not 0 <= placement.dim < len(meta.shape):
        raise ShardpropError(
            f"{where}: Expected shards of the operand's {len(meta.shape)} tensor dims, got "
            f"{placement} on mesh dim {mesh_dim}."
        )


def kinds_among(sources: Sequence[Sequence[Placements]], strided: bool) -> list[int]:
    """What placeholders are filled with: 0 for a plain shard, which always is one of them, and the
    split factors that occur, the least first."""
    layouts = itertools.chain(*sources)
    distinct = {*itertools.chain(*layouts)}
    factors = {int(p.split_factor) for p in distinct if is_strided(p)}  # type: ignore[attr-defined]
    return [0, *sorted(factors)] if strided else [0]
