"""The placements that torch tries for each operand of a decomposition, in torch's order."""

from __future__ import annotations

from collections.abc import Sequence

from ..._torch import DTensorSpec, Placement, Replicate, Shard, StridedShard

__all__ = ["operand_options"]


def operand_options(specs: Sequence[DTensorSpec]) -> list[list[Placement]]:
    """Per operand: every placement that any operand has on any mesh dim, and Replicate; a sharding
    of one tensor dim stands for the same sharding of each of the operand's.

    torch keeps them in sets and takes the order in which those iterate. That order depends on the
    elements and on how the set came about, so the sets here are filled step by step as torch's are.
    A shard of a tensor dim that an operand does not have stays among its options, as in torch.
    """
    seen: set[Placement] = {Replicate()}
    for spec in specs:
        seen.update(spec.placements)
    options = []
    for spec in specs:
        mine = set(seen)
        for placement in seen:
            if isinstance(placement, StridedShard):
                factor = placement.split_factor
                mine |= {StridedShard(dim, split_factor=factor) for dim in range(spec.ndim)}
            elif isinstance(placement, Shard):
                mine |= {Shard(dim) for dim in range(spec.ndim)}
        options.append(list(mine))
    return options
