"""Who sends its block to whom when shards move between mesh dims and nothing else changes."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Sequence

from ..errors import ShardpropError

__all__ = ["ShardOrder", "destinations"]

# Per tensor dim that is sharded: the mesh dims that cut it, the outermost first.
ShardOrder = tuple[tuple[int, tuple[int, ...]], ...]

# Of a tensor's blocks, the one at these places along the tensor dims.
_Block = tuple[int, ...]

_TABLES_HELD = 256


@functools.lru_cache(maxsize=_TABLES_HELD)
def destinations(
    before: ShardOrder, after: ShardOrder, sizes: tuple[int, ...], group: tuple[int, ...]
) -> tuple[int, ...]:
    """The rank that each rank of a group of mesh dims sends its block to.

    Ranks are counted within the group, its mesh dims ascending and the last one fastest. A rank
    that holds the block it needs keeps it; the others that hold a block and those that need it are
    paired in ascending order. So every rank comes to the same answer, whatever its place is on the
    other mesh dims: these cut the tensor as before.

    On a 2x2 mesh from ``(S(0), R)`` to ``(R, S(0))``, ranks 1 and 2 swap blocks: ``(0, 2, 1, 3)``.

    Args:
        before: How the tensor is cut now.
        after: How it is to be cut: along each tensor dim into as many pieces.
        sizes: Sizes of all mesh dims.
        group: The mesh dims that may change.

    Raises:
        ShardpropError: there are blocks after that there were not before, or other numbers of them.
    """
    tensor_dims = sorted({dim for dim, _ in (*before, *after)})
    holders = _ranks_by_block(_blocks(before, tensor_dims, sizes, group))
    needers = _ranks_by_block(_blocks(after, tensor_dims, sizes, group))
    if {block: len(ranks) for block, ranks in holders.items()} != {
        block: len(ranks) for block, ranks in needers.items()
    }:
        raise ShardpropError(
            f"Expected a permutation over mesh dims {group}, got shards {before} and {after}, "
            "which cut the tensor into other pieces."
        )
    table = [0] * sum(len(ranks) for ranks in holders.values())
    for block, holding in holders.items():
        needing = needers[block]
        for rank in set(holding) & set(needing):
            table[rank] = rank
        senders = [rank for rank in holding if rank not in needing]
        receivers = [rank for rank in needing if rank not in holding]
        for sender, receiver in zip(senders, receivers, strict=True):
            table[sender] = receiver
    return tuple(table)


def _blocks(
    order: ShardOrder, tensor_dims: Sequence[int], sizes: Sequence[int], group: Sequence[int]
) -> list[_Block]:
    """The block of each rank of the group that has place 0 on all other mesh dims."""
    cuts = dict(order)
    blocks = []
    for places in itertools.product(*(range(sizes[mesh_dim]) for mesh_dim in group)):
        place_on = dict(zip(group, places, strict=True))
        block = []
        for tensor_dim in tensor_dims:
            index = 0
            for mesh_dim in cuts.get(tensor_dim, ()):
                index = index * sizes[mesh_dim] + place_on.get(mesh_dim, 0)
            block.append(index)
        blocks.append(tuple(block))
    return blocks


def _ranks_by_block(blocks: Sequence[_Block]) -> dict[_Block, list[int]]:
    """The ranks that hold each block, ascending."""
    ranks: dict[_Block, list[int]] = defaultdict(list)
    for rank, block in enumerate(blocks):
        ranks[block].append(rank)
    return ranks
