"""Layouts as the oracle sees them: small tuples in which equal layouts are equal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._ops._math_ops import _NormPartial
from torch.distributed.tensor.placement_types import _StridedShard

from shardprop.model.plan_steps import Layout

# Per tensor dim the mesh dims in the order in which they cut it.
Orders = tuple[tuple[int, ...], ...]

# What a mesh dim may hold.
R, S, SS, P = "R", "S", "SS", "P"
NORM = "norm"  # the p-th root of a sum of p-th powers
SPECIAL = "special partial"  # another subclass of Partial
OPAQUE = "opaque"


class Placed(NamedTuple):
    """A placement on one mesh dim."""

    kind: str
    dim: int = -1  # of S and SS
    factor: int = 1  # of SS
    op: str = ""  # of P
    value: Placement | None = None  # what is a norm, special or opaque

    @property
    def cuts(self) -> bool:
        return self.kind in (S, SS)


REPLICATED = Placed(R)


class State(NamedTuple):
    """A layout, and which of its partials the plan has introduced so far.

    Mesh dims of size 1 are replicated and in no order.
    """

    placed: tuple[Placed, ...]
    orders: Orders
    introduced: frozenset[int] = frozenset()

    def put(self, mesh_dims: Iterable[int], to: Placed) -> State:
        """Each of `mesh_dims` holds `to` now; where that cuts, they cut last, one by one."""
        dims = tuple(mesh_dims)
        placed = tuple(to if m in dims else p for m, p in enumerate(self.placed))
        orders = [tuple(m for m in order if m not in dims) for order in self.orders]
        if to.cuts:
            orders[to.dim] += dims
        return self._replace(placed=placed, orders=tuple(orders))

    def layout(self) -> State:
        """Without what is remembered of the plan."""
        return self._replace(introduced=frozenset())

    def __str__(self) -> str:
        names = {R: "R", NORM: "norm", SPECIAL: "special", OPAQUE: "opaque"}
        texts = []
        for p in self.placed:
            factor = f"/{p.factor}" if p.kind == SS else ""
            texts.append(names.get(p.kind) or f"{p.kind}({p.op}{p.dim if p.cuts else ''}{factor})")
        orders = {dim: order for dim, order in enumerate(self.orders) if len(order) > 1}
        return f"({', '.join(texts)})" + (f" order {orders}" if orders else "")


def placed(placement: Placement) -> Placed:
    if type(placement) is Replicate:
        return REPLICATED
    if type(placement) is Shard:
        return Placed(S, placement.dim)
    if type(placement) is _StridedShard:
        return Placed(SS, placement.dim, factor=int(placement.split_factor))
    if type(placement) is Partial:
        return Placed(P, op=placement.reduce_op)
    if type(placement) is _NormPartial:
        return Placed(NORM, value=placement)
    if isinstance(placement, Partial):
        return Placed(SPECIAL, op=placement.reduce_op, value=placement)
    return Placed(OPAQUE, value=placement)


def placement(of: Placed) -> Placement:
    if of.value is not None:
        return of.value
    if of.kind == R:
        return Replicate()
    if of.kind == S:
        return Shard(of.dim)
    if of.kind == SS:
        return _StridedShard(of.dim, split_factor=of.factor)
    return Partial(of.op)


def state_of(layout: Layout, sizes: Sequence[int], tensor_ndim: int) -> State:
    """Where a shard is in no order, or an order names what is no shard of its dim: ValueError."""
    kept = tuple(
        placed(p) if size > 1 else REPLICATED
        for p, size in zip(layout.placements, sizes, strict=True)
    )
    given = dict(layout.shard_order)
    orders = tuple(
        tuple(m for m in given.get(dim, ()) if sizes[m] > 1) for dim in range(tensor_ndim)
    )
    for dim, order in enumerate(orders):
        shards = [m for m, p in enumerate(kept) if p.cuts and p.dim == dim]
        if sorted(order) != shards:
            raise ValueError(f"Expected an order of {shards} for tensor dim {dim}, got {order}.")
    return State(kept, orders)


def layout_of(state: State) -> Layout:
    """The layout with mesh dims of size 1 replicated."""
    order = tuple((dim, order) for dim, order in enumerate(state.orders) if order)
    return Layout(tuple(placement(p) for p in state.placed), order)


def left_to_right(placements: Sequence[Placement]) -> Layout:
    """`placements` with the default shard order."""
    orders: dict[int, tuple[int, ...]] = {}
    for mesh_dim, p in enumerate(placements):
        if placed(p).cuts:
            dim = placed(p).dim
            orders[dim] = (*orders.get(dim, ()), mesh_dim)
    return Layout(tuple(placements), tuple(sorted(orders.items())))


def state_of_spec(spec: DTensorSpec) -> State:
    """What a plan starts from or leads to: strided shards that stand for an order are undone."""
    sizes, shape = tuple(spec.mesh.shape), tuple(spec.shape)
    strided = any(
        type(p) is _StridedShard and size > 1
        for p, size in zip(spec.placements, sizes, strict=True)
    )
    if spec.shard_order is not None and not strided:
        order = tuple((entry.tensor_dim, tuple(entry.mesh_dims)) for entry in spec.shard_order)
        return state_of(Layout(tuple(spec.placements), order), sizes, len(shape))
    return state_of_placements(
        spec.placements, sizes, shape, bool(spec.use_strided_shard_as_shard_order)
    )


def state_of_placements(
    placements: Sequence[Placement],
    sizes: Sequence[int],
    shape: Sequence[int],
    strided_is_order: bool = True,
) -> State:
    """The same for placements that have no explicit order."""
    state = state_of(left_to_right(placements), sizes, len(shape))
    strided = {p.dim for p in state.placed if p.kind == SS}
    if not strided or not strided_is_order:
        return state
    orders = _decode(state, sizes)
    if orders is None:
        return state
    plain = tuple(Placed(S, p.dim) if p.cuts else p for p in state.placed)
    return State(plain, orders)


def _decode(state: State, sizes: Sequence[int]) -> Orders | None:
    """The shard order that strided shards stand for; None where they stand for none.

    A mesh dim goes, from right to left, to the first place where those before it have cut the
    tensor dim into as many pieces as its factor says.
    """
    orders: list[list[int]] = [[] for _ in state.orders]
    for m in reversed(range(len(sizes))):
        p = state.placed[m]
        if not p.cuts:
            continue
        order = orders[p.dim]
        for i in range(len(order) + 1):
            if math.prod(sizes[before] for before in order[:i]) == p.factor:
                order.insert(i, m)
                break
        else:
            return None
    return tuple(tuple(order) for order in orders)


def local_shape(state: State, sizes: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Of the first rank."""
    local = list(shape)
    for dim, order in enumerate(state.orders):
        for m in order:
            local[dim] = first_part(local[dim], sizes[m], state.placed[m].factor)
    return tuple(local)


def first_part(size: int, ranks: int, factor: int = 1) -> int:
    """What the first of `ranks` gets of `factor` pieces that are cut one by one."""
    piece = ceil(size, factor)
    if piece == 0:
        return 0
    whole, rest = divmod(size, piece)
    return whole * ceil(piece, ranks) + ceil(rest, ranks)


def ceil(size: int, parts: int) -> int:
    return -(-size // parts)
