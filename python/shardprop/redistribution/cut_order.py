"""Moves that keep to the order in which a layout cuts a tensor.

To gather along a mesh dim puts pieces side by side again: right for the last cut of a tensor dim
alone, and with the size that it has cut. torch's graph planner keeps to that. Where a strided shard
stands for no shard order, torch plans mesh dim by mesh dim, as if strided shards cut nothing, so
that data ends up elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from .. import _torch
from .._torch import DTensorSpec, Placement, Replicate, is_shard, is_strided
from ..model.plan_steps import Layout

__all__ = ["Change", "cuts_of", "follows_cuts", "layouts_before", "moves_by_cuts"]

# On one mesh dim: the placement before, and after.
Change = tuple[int, Placement, Placement]


def cuts_of(spec: DTensorSpec) -> Layout:
    """The layout of a spec with every cut in its order; mesh dims of one rank cut nothing.

    A strided shard that stands for no shard order cuts where its mesh dim has its turn.
    """
    placements, order = _torch.decoded_layout(spec)
    if not order:
        order = tuple((e.tensor_dim, e.mesh_dims) for e in _torch.default_shard_order(placements))
    sizes = spec.mesh.shape
    cuts = ((dim, tuple(m for m in mesh_dims if sizes[m] > 1)) for dim, mesh_dims in order)
    return Layout(tuple(placements), tuple((dim, made) for dim, made in cuts if made))


def follows_cuts(moves: Iterable[Change], src: Layout, dst: Layout, by_graph: bool) -> bool:
    """Do torch's moves undo and make cuts in their order, and so lead from `src` to `dst`?

    Args:
        moves: On mesh dims of more than one rank.
        src: What they start from, as `cuts_of` has it.
        dst: What they are to lead to, likewise.
        by_graph: torch's graph planner made them, which knows what strided shards cut.
    """
    at = src
    for mesh_dim, before, after in moves:
        if at.placements[mesh_dim] != before:
            return False
        for tensor_dim in {p.dim for p in (before, after) if is_shard(p)}:  # type: ignore[attr-defined]
            cuts = dict(at.shard_order).get(tensor_dim, ())
            if mesh_dim in cuts[:-1]:
                return False
            others = (at.placements[m] for m in cuts if m != mesh_dim)
            if not by_graph and is_shard(before) and any(map(is_strided, others)):
                return False
        at = _after(at, mesh_dim, after)
    return at.shard_order == dst.shard_order and all(
        at.placements[m] == dst.placements[m] for _, cuts in dst.shard_order for m in cuts
    )


def moves_by_cuts(src: Layout, dst: Layout) -> list[Change]:
    """Moves that undo the cuts of `src` which `dst` does not make, from the last one, and then make
    those of `dst`."""
    moves: list[Change] = []
    at = list(src.placements)

    def move(mesh_dim: int, after: Placement) -> None:
        if at[mesh_dim] != after:
            moves.append((mesh_dim, at[mesh_dim], after))
            at[mesh_dim] = after

    wanted = dict(dst.shard_order)
    for tensor_dim, cuts in src.shard_order:
        pairs = zip(cuts, wanted.get(tensor_dim, ()), strict=False)
        kept = sum(1 for _ in takewhile(lambda pair: _is_kept(src, dst, *pair), pairs))
        for mesh_dim in reversed(cuts[kept:]):
            move(mesh_dim, Replicate())
    for _, cuts in dst.shard_order:
        for mesh_dim in cuts:
            move(mesh_dim, dst.placements[mesh_dim])
    for mesh_dim, placement in enumerate(dst.placements):
        if not is_shard(placement):
            move(mesh_dim, placement)
    return moves


def layouts_before(moves: Sequence[Change], src: Layout) -> list[Layout]:
    """The layout that each move starts from."""
    layouts = [src]
    for mesh_dim, _, after in moves[:-1]:
        layouts.append(_after(layouts[-1], mesh_dim, after))
    return layouts[: len(moves)]


def _is_kept(src: Layout, dst: Layout, before: int, after: int) -> bool:
    return before == after and src.placements[before] == dst.placements[before]


def _after(at: Layout, mesh_dim: int, placement: Placement) -> Layout:
    """The layout with another placement, which if it is a shard makes the last cut."""
    cuts = {dim: tuple(m for m in made if m != mesh_dim) for dim, made in at.shard_order}
    if is_shard(placement):
        dim: int = placement.dim  # type: ignore[attr-defined]
        cuts[dim] = (*cuts.get(dim, ()), mesh_dim)
    placements = (*at.placements[:mesh_dim], placement, *at.placements[mesh_dim + 1 :])
    return Layout(placements, tuple(sorted((dim, made) for dim, made in cuts.items() if made)))
