"""A call for which a decomposition gives the rows of all placements that its operands may have."""

from __future__ import annotations

from collections.abc import Sequence

from ..._torch import OpSchema, Placement, Replicate, Shard, StridedShard, make_spec
from ...model.placements import Placements
from .call_template import CallTemplate

__all__ = ["schema_of_sources"]


def schema_of_sources(
    call: CallTemplate, sources: Sequence[Sequence[Placements]], strided: bool
) -> OpSchema:
    """A call whose operands have any of the placements of their sources.

    A decomposition is tried with the placements that operands have on whichever mesh dim, each by
    itself, so that a spec may have more of them than there are mesh dims.
    """
    tried: list[tuple[Placement, ...]] = []
    for layouts, meta in zip(sources, call.operand_metas, strict=True):
        found: dict[Placement, None] = {Replicate(): None}
        if len(meta.shape):  # a plain shard of one tensor dim stands for those of all
            found[Shard(0)] = None
        for layout in layouts:
            found.update(dict.fromkeys(layout))
        tried.append(tuple(p for p in found if strided or not isinstance(p, StridedShard)))
    specs = [
        make_spec(call.mesh, placements, spec.tensor_meta, strided_is_order=False)
        for placements, spec in zip(call.in_walk(tried), call.replicated_specs(), strict=True)
    ]
    return call.schema(specs)
