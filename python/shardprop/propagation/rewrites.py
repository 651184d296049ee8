"""torch's rewrites of arguments that hold global sizes, such as the shape of a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core, _torch
from .._torch import DTensorSpec, OpSchema, Shard, TensorMeta, is_shard
from ..model.mesh import core_mesh
from ..model.op_traits import traits_of

__all__ = ["rewrite"]


def rewrite(
    schema: OpSchema,
    suggestion: OpSchema | None,
    wanted: Sequence[DTensorSpec],
    output: Any,
    meta: Any,
) -> OpSchema | None:
    """The schema with local sizes where torch puts them; None where nothing is rewritten.

    `suggestion` is the schema with its operands as `wanted`, if any of them moves.

    Raises:
        _core.Unsupported: a shape argument beside several outputs; torch words that error.
    """
    rewrites = traits_of(schema.op).rewrites
    rewritten: OpSchema | None = None
    if rewrites.shape is not None:
        if not isinstance(output, DTensorSpec) or not isinstance(meta, TensorMeta):
            raise _core.Unsupported("shape arguments of an op with several outputs")
        if _is_sharded(output):
            rewritten = _with_local_shape(suggestion or schema, output, meta, rewrites.shape)
    if rewrites.adjust_scalars is not None and any(map(_is_sharded, wanted)):
        rewritten = rewrites.adjust_scalars(list(wanted), rewritten or suggestion or schema)
    if rewrites.squeeze is not None:
        squeezed = _torch.with_global_singletons(rewritten or suggestion or schema)
        rewritten = squeezed if squeezed is not None else rewritten
    return rewritten


def _is_sharded(spec: DTensorSpec) -> bool:
    return any(map(is_shard, spec.placements))


def _with_local_shape(
    schema: OpSchema, output: DTensorSpec, meta: TensorMeta, index: int | tuple[int, ...]
) -> OpSchema:
    if not isinstance(index, int) or (local := _even_shape(output, meta)) is None:
        return _torch.with_local_shape(schema, output, meta)
    args = list(schema.args_schema)
    args[index] = local
    return OpSchema(schema.op, tuple(args), schema.kwargs_schema)


def _even_shape(spec: DTensorSpec, meta: TensorMeta) -> tuple[int, ...] | None:
    """What each rank of the mesh holds, where that is the same for all; None where it is not, or
    this rank is none of them. torch's way to it takes 10 us."""
    mesh = core_mesh(spec.mesh)
    if not mesh.member or _torch.plans_for_any_rank():
        return None
    local = [*meta.shape]
    for pieces, placement in zip(mesh.sizes, spec.placements, strict=True):
        if not is_shard(placement):
            continue
        if not isinstance(placement, Shard) or placement.dim >= len(local):
            return None
        size = local[placement.dim]
        if type(size) is not int or size % pieces != 0:
            return None
        local[placement.dim] = size // pieces
    return tuple(local)
