"""The moves between layouts that a plan may be made of, and random ways through them."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardprop._torch import Partial, Placement, Replicate, Shard, StridedShard
from shardprop.model.plan_steps import Layout, Step

Groups = Sequence[tuple[int, ...]]

REPLICATE = Replicate()
ADDED = {"sum", "avg"}
INTRODUCIBLE = ("sum", "avg", "min", "max")


@dataclass(frozen=True)
class Tensor:
    """A tensor on a mesh: what decides which moves there are.

    Attributes:
        shape: Its shape.
        sizes: Sizes of the mesh dims.
        groups: Sets of mesh dims that are flattened.
        simulated: One process stands for all ranks. torch's simulation cannot gather strided
            shards of which the size differs by rank.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    groups: Groups = ()
    simulated: bool = True

    def is_even(self, at: Layout, dim: int) -> bool:
        """Is a tensor dim cut into equal pieces, strided or not?"""
        mesh_dims = dict(at.shard_order)[dim]
        plain = all(type(at.placements[m]) is Shard for m in mesh_dims)
        return plain and self.shape[dim] % math.prod(self.sizes[m] for m in mesh_dims) == 0

    def active(self) -> list[int]:
        return [m for m, size in enumerate(self.sizes) if size > 1]

    def layout(self, placements: Sequence[Placement]) -> Layout:
        """The placements with shards in the order of the mesh dims."""
        order: dict[int, tuple[int, ...]] = {}
        for m in self.active():
            if isinstance(placements[m], Shard | StridedShard):
                dim = placements[m].dim  # type: ignore[attr-defined]
                order[dim] = (*order.get(dim, ()), m)
        return _layout(placements, order)


def _layout(placements: Sequence[Placement], order: dict[int, tuple[int, ...]]) -> Layout:
    return Layout(tuple(placements), tuple(sorted((d, o) for d, o in order.items() if o)))


def _step(kind: str, group: tuple[int, ...], before: Layout, after: Layout) -> Step:
    return Step(kind, group, before, after, 0.0, 0.0, 0, 0)


def _moved(
    before: Layout, group: tuple[int, ...], to: Placement, order: dict[int, tuple[int, ...]]
) -> Layout:
    placements = list(before.placements)
    for m in group:
        placements[m] = to
    return _layout(placements, order)


def _is_opaque(placement: Placement) -> bool:
    return isinstance(placement, Partial) and type(placement) is not Partial


def steps_from(
    tensor: Tensor,
    at: Layout,
    introduced: frozenset[int],
    chance: random.Random,
    wanted: Sequence[Placement | None],
) -> Iterator[Step]:
    """The moves from a layout; Partials are introduced, and strided shards made, as `wanted`."""
    for m in tensor.active():
        yield from _local_steps(tensor, at, m, wanted[m])
    for group in [*((m,) for m in tensor.active()), *tensor.groups]:
        yield from _gathers(tensor, at, group)
        if not introduced & set(group):
            yield from _reductions(tensor, at, group)
        if len(group) > 1:
            yield from _permutations(tensor, at, group, chance)


def _local_steps(tensor: Tensor, at: Layout, m: int, wanted: Placement | None) -> Iterator[Step]:
    order = dict(at.shard_order)
    held = at.placements[m]
    if isinstance(held, Replicate):
        cuts: list[Placement] = [Shard(dim) for dim in range(len(tensor.shape))]
        if isinstance(wanted, StridedShard):
            cuts.append(wanted)
        for to in cuts:
            dim = to.dim  # type: ignore[attr-defined]
            after = order | {dim: (*order.get(dim, ()), m)}
            yield _step("chunk", (m,), at, _moved(at, (m,), to, after))
        if type(wanted) is Partial and _mixable(at, wanted) and wanted.reduce_op in INTRODUCIBLE:
            yield _step("partition", (m,), at, _moved(at, (m,), wanted, order))
    if type(held) is Shard and order[held.dim][-1] == m and wanted == Partial("sum"):
        after = order | {held.dim: order[held.dim][:-1]}
        if _mixable(at, wanted):
            yield _step("zero_fill", (m,), at, _moved(at, (m,), wanted, after))


def _mixable(at: Layout, partial: Partial) -> bool:
    ops = {p.reduce_op for p in at.placements if isinstance(p, Partial)} | {partial.reduce_op}
    return len(ops) == 1 or ops == ADDED


def _gathers(tensor: Tensor, at: Layout, group: tuple[int, ...]) -> Iterator[Step]:
    order = dict(at.shard_order)
    held = at.placements[group[0]]
    if not isinstance(held, Shard | StridedShard):
        return
    if order[held.dim][-len(group) :] != group or any(at.placements[m] != held for m in group):
        return
    rest = order | {held.dim: order[held.dim][: -len(group)]}
    gathered = _moved(at, group, REPLICATE, rest)
    single = len(group) == 1
    if type(held) is not Shard:
        alike = not rest[held.dim] or tensor.is_even(gathered, held.dim)
        if single and (alike or not tensor.simulated):
            yield _step("all_gather", group, at, gathered)
        return
    if single or tensor.is_even(at, held.dim):
        yield _step("all_gather", group, at, gathered)
    for dim in range(len(tensor.shape)):
        after = _moved(at, group, Shard(dim), rest | {dim: (*rest.get(dim, ()), *group)})
        even = single or (tensor.is_even(at, held.dim) and tensor.is_even(after, dim))
        if dim != held.dim and even:
            yield _step("all_to_all", group, at, after)


def _reductions(tensor: Tensor, at: Layout, group: tuple[int, ...]) -> Iterator[Step]:
    pending = [at.placements[m] for m in group]
    if not all(type(p) is Partial for p in pending):
        return
    ops = {p.reduce_op for p in pending}  # type: ignore[attr-defined]
    if len(ops) > 1 and ops != ADDED:
        return
    order = dict(at.shard_order)
    yield _step("all_reduce", group, at, _moved(at, group, REPLICATE, order))
    for dim in range(len(tensor.shape)):
        after = _moved(at, group, Shard(dim), order | {dim: (*order.get(dim, ()), *group)})
        if len(group) == 1 or tensor.is_even(after, dim):
            yield _step("reduce_scatter", group, at, after)


def _permutations(
    tensor: Tensor, at: Layout, group: tuple[int, ...], chance: random.Random
) -> Iterator[Step]:
    """One of those that there are: mesh dims of the group exchanged, or cut anew."""
    if not all(type(at.placements[m]) in (Shard, Replicate) for m in group):
        return
    for _ in range(3):
        after = _exchanged(at, group, chance)
        if after != at and is_permutation(tensor, at, after, group):
            yield _step("permute", group, at, after)
            return


def _exchanged(at: Layout, group: tuple[int, ...], chance: random.Random) -> Layout:
    to = dict(zip(group, chance.sample(group, len(group)), strict=True))
    placements = list(at.placements)
    for m in group:
        placements[to[m]] = at.placements[m]
    return _layout(placements, {d: tuple(to.get(m, m) for m in o) for d, o in at.shard_order})


def is_permutation(tensor: Tensor, before: Layout, after: Layout, group: Sequence[int]) -> bool:
    old, new = dict(before.shard_order), dict(after.shard_order)
    for dim in old.keys() | new.keys():
        a, b = old.get(dim, ()), new.get(dim, ())
        if _frame(a, tensor.sizes, group) != _frame(b, tensor.sizes, group):
            return False
        if a != b and not tensor.is_even(before if dim in old else after, dim):
            return False
    return True


def _frame(order: tuple[int, ...], sizes: Sequence[int], group: Sequence[int]) -> list[object]:
    """The mesh dims that stay, each with the number of pieces before it, and that of all."""
    pieces, frame = 1, []
    for m in order:
        if m not in group:
            frame.append((m, pieces))
        pieces *= sizes[m]
    return [*frame, pieces]


def random_layout(tensor: Tensor, chance: random.Random, strided: bool = True) -> Layout:
    """Any shard order, a few strided shards, Partials that may be mixed."""
    ops = chance.choice([["sum"], ["sum", "avg"], ["avg"], ["max"], ["min"]])
    placements: list[Placement] = []
    for _ in tensor.sizes:
        kind = chance.random()
        dim = chance.randrange(len(tensor.shape))
        if kind < 0.25:
            placements.append(REPLICATE)
        elif kind < 0.5:
            placements.append(Partial(chance.choice(ops)))
        elif kind < 0.92 or not strided:
            placements.append(Shard(dim))
        else:
            placements.append(StridedShard(dim, split_factor=chance.choice((2, 3))))
    layout = tensor.layout(placements)
    order = dict(layout.shard_order)
    for dim, mesh_dims in order.items():
        if all(type(placements[m]) is Shard for m in mesh_dims):
            order[dim] = tuple(chance.sample(mesh_dims, len(mesh_dims)))
    return _layout(placements, order)


def random_walk(tensor: Tensor, length: int, chance: random.Random) -> list[Step]:
    """Steps from a random layout; empty where there is none."""
    at = random_layout(tensor, chance)
    wanted = [
        p if isinstance(p, Partial | StridedShard) else Partial(chance.choice(INTRODUCIBLE))
        for p in random_layout(tensor, chance).placements
    ]
    introduced: frozenset[int] = frozenset()
    walk: list[Step] = []
    for _ in range(length):
        kinds: dict[tuple[str, bool], list[Step]] = {}
        for step in steps_from(tensor, at, introduced, chance, wanted):
            kinds.setdefault((step.kind, len(step.mesh_dims) > 1), []).append(step)
        if not kinds:
            break
        # By kind first: there are many more chunks than permutations.
        step = chance.choice(kinds[chance.choice(sorted(kinds))])
        if step.kind in ("partition", "zero_fill"):
            introduced |= set(step.mesh_dims)
        walk.append(step)
        at = step.after
    return walk


def random_way(tensor: Tensor, source: Layout, target: Layout, seed: int) -> list[Step] | None:
    """A way from one layout to another, the shortest under random prices; None if there is none."""
    chance = random.Random(seed)
    count = itertools.count()
    start = source, frozenset[int]()
    queue: list[tuple[float, int, tuple[Layout, frozenset[int]], list[Step]]]
    queue = [(0.0, next(count), start, [])]
    done = set()
    while queue:
        price, _, state, way = heapq.heappop(queue)
        if state in done:
            continue
        done.add(state)
        at, introduced = state
        if at == target:
            return way
        for step in steps_from(tensor, at, introduced, chance, target.placements):
            new = introduced
            if step.kind in ("partition", "zero_fill"):
                new |= set(step.mesh_dims)
            heapq.heappush(
                queue,
                (price + chance.expovariate(1), next(count), (step.after, new), [*way, step]),
            )
    return None
