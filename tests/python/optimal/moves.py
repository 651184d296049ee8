"""Every step that a plan may take from a layout, and what it costs.

There is one function for each row of the table in docs/optimal.md. In their formulas, as there:

    b       bytes that the first rank holds
    n       ranks of the group G
    length  of the tensor dim on the first rank, before the cuts by G
    Q       bytes of a tensor whose dim is padded so that n pieces of it are equal
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shardprop.cost.cost_model import COLLECTIVES, CostModel

from .permutes import permuted
from .state import NORM, REPLICATED, SPECIAL, SS, P, Placed, R, S, State, ceil, local_shape

__all__ = ["Move", "Problem", "mixable", "moves"]

Group = tuple[int, ...]

# What a plan may introduce from replicated data.
_PARTITIONED = ("sum", "avg", "min", "max")


@dataclass(frozen=True)
class Problem:
    """All that decides which moves there are and what they cost.

    Attributes:
        target: Partials and strided shards are introduced only where it has them.
        memory_limit: Steps that hold more bytes than this at once do not exist.
        masked: The special partials of the source: what is masked is not masked a second time.
        whole: Mesh dims on which the source is replicated: only there something is masked.
    """

    model: CostModel
    shape: tuple[int, ...]
    itemsize: int
    target: State
    memory_limit: int | None = None
    masked: frozenset[Placed] = frozenset()
    whole: frozenset[int] = frozenset()

    def starting(self, source: State) -> Problem:
        """The problem of plans from a state."""
        special = frozenset(p for p in source.placed if p.kind == SPECIAL)
        whole = frozenset(m for m, p in enumerate(source.placed) if p == REPLICATED)
        return replace(self, masked=special, whole=whole)

    def bytes_of(self, state: State) -> int:
        return self.itemsize * math.prod(self.local_shape(state))

    def local_shape(self, state: State) -> tuple[int, ...]:
        return local_shape(state, self.model.sizes, self.shape)

    def ranks(self, group: Group) -> int:
        return math.prod(self.model.sizes[m] for m in group)

    def is_even(self, state: State, dim: int) -> bool:
        """Every rank holds as much of the tensor dim.

        A strided shard cuts it into more pieces than it has ranks.
        """
        order = state.orders[dim]
        pieces = self.ranks(order) * math.prod(state.placed[m].factor for m in order)
        return self.shape[dim] % pieces == 0


@dataclass(frozen=True)
class Move:
    """One step; `wire`, `traffic`, `staging` and `peak` are bytes."""

    kind: str
    mesh_dims: Group
    after: State
    comm_ps: int
    local_ps: int
    wire: int
    kernels: int
    traffic: int
    staging: int
    peak: int

    @property
    def is_collective(self) -> bool:
        return self.kind in COLLECTIVES


def moves(state: State, problem: Problem) -> Iterator[Move]:
    """Every legal step from `state`, each once."""
    for move in _moves(state, problem):
        if problem.memory_limit is None or move.peak <= problem.memory_limit:
            yield move


def _moves(state: State, problem: Problem) -> Iterator[Move]:
    first = [m for m in range(len(state.placed)) if _comes_first(state, m)]
    if first:
        for m in first:
            yield from _reductions(state, problem, (m,))
        return
    if any(state.placed[m].kind == SPECIAL for m in state.introduced):
        for m in range(len(state.placed)):
            if problem.target.placed[m].kind == SPECIAL:
                yield from _partition(state, problem, m)
        return
    for costs in problem.model.groups:
        group = costs.mesh_dims
        dim = _shared_end(state, group)
        if dim is not None:
            yield from _all_gather(state, problem, group, dim)
            yield from _all_to_all(state, problem, group, dim)
        if _reduces_together(state, group):
            yield from _reductions(state, problem, group)
        if len(group) > 1:
            yield from _permutes(state, problem, group)
    for m, size in enumerate(problem.model.sizes):
        if size > 1:
            yield from _chunks(state, problem, m)
            yield from _gather_strided(state, problem, m)
            yield from _partition(state, problem, m)
            yield from _zero_fill(state, problem, m)


# Shards -------------------------------------------------------------------------------------------


def _shared_end(state: State, group: Group) -> int | None:
    """The tensor dim that plain shards of the group cut last, in ascending order."""
    for dim, order in enumerate(state.orders):
        if order[-len(group) :] == group and all(state.placed[m].kind == S for m in group):
            return dim
    return None


def _all_gather(state: State, problem: Problem, group: Group, dim: int) -> Iterator[Move]:
    if len(group) > 1 and not problem.is_even(state, dim):
        return
    after = state.put(group, REPLICATED)
    n, b = problem.ranks(group), problem.bytes_of(state)
    uneven = problem.local_shape(after)[dim] % n != 0
    kernels = traffic = staging = 0
    if dim != 0 or uneven:
        kernels, traffic, staging = 1, 2 * n * b, n * b
    if uneven:
        kernels, traffic = kernels + 1, traffic + 2 * b
    yield _move(
        "all_gather",
        group,
        state,
        after,
        problem,
        wire=(n - 1) * b,
        kernels=kernels,
        traffic=traffic,
        staging=staging,
    )


def _all_to_all(state: State, problem: Problem, group: Group, dim: int) -> Iterator[Move]:
    n = problem.ranks(group)
    length = problem.local_shape(state.put(group, REPLICATED))[dim]
    for other in range(len(problem.shape)):
        after = state.put(group, Placed(S, other))
        even = problem.is_even(state, dim) and problem.is_even(after, other)
        if other == dim or (len(group) > 1 and not even):
            continue
        other_length = problem.local_shape(state)[other]
        q = _padded(state, problem, other, n)
        kernels, traffic = 2, 4 * q
        if length % n != 0 or other_length % n != 0:
            kernels, traffic = 3, 6 * q
        gathers = problem.model.all_to_all_gathers
        yield _move(
            "all_to_all",
            group,
            state,
            after,
            problem,
            wire=(n - 1) * q if gathers else (n - 1) * q // n,
            kernels=kernels,
            traffic=traffic,
            staging=n * q if gathers else q,
        )


def _padded(state: State, problem: Problem, dim: int, n: int) -> int:
    """Q: bytes of the first rank's tensor with `dim` padded to n equal pieces."""
    shape = list(problem.local_shape(state))
    shape[dim] = ceil(shape[dim], n) * n
    return problem.itemsize * math.prod(shape)


def _permutes(state: State, problem: Problem, group: Group) -> Iterator[Move]:
    if any(state.placed[m].kind not in (R, S) for m in group):
        return
    for orders in permuted(state.orders, group, problem.model.sizes):
        after = _with_orders(state, group, orders)
        changed = [dim for dim, order in enumerate(orders) if order != state.orders[dim]]
        if all(problem.is_even(after, dim) for dim in changed):
            yield _move("permute", group, state, after, problem, wire=problem.bytes_of(state))


def _with_orders(state: State, group: Group, orders: tuple[tuple[int, ...], ...]) -> State:
    """`state` where the mesh dims of the group cut as `orders` say."""
    placed = list(state.placed)
    for m in group:
        cut = [dim for dim, order in enumerate(orders) if m in order]
        placed[m] = Placed(S, cut[0]) if cut else REPLICATED
    return state._replace(placed=tuple(placed), orders=orders)


def _chunks(state: State, problem: Problem, m: int) -> Iterator[Move]:
    """To plain shards, and to the target's strided one."""
    if state.placed[m].kind != R:
        return
    wanted = [Placed(S, dim) for dim in range(len(problem.shape))]
    if problem.target.placed[m].kind == SS:
        wanted.append(problem.target.placed[m])
    for to in wanted:
        after = state.put((m,), to)
        traffic = 2 * problem.bytes_of(after)
        yield _move("chunk", (m,), state, after, problem, kernels=1, traffic=traffic)


def _gather_strided(state: State, problem: Problem, m: int) -> Iterator[Move]:
    p = state.placed[m]
    if p.kind != SS or state.orders[p.dim][-1] != m:
        return
    n, b = problem.ranks((m,)), problem.bytes_of(state)
    yield _move(
        "all_gather",
        (m,),
        state,
        state.put((m,), REPLICATED),
        problem,
        wire=(n - 1) * b,
        kernels=2,
        traffic=4 * n * b,
        staging=n * b,
    )


# Partials -----------------------------------------------------------------------------------------


def mixable(op: str, other: str) -> bool:
    """May partials of the two ops be in one layout, and be reduced together?"""
    return op == other or {op, other} == {"sum", "avg"}


def _commute(p: Placed, other: Placed) -> bool:
    return p == other or (p.kind == other.kind == P and mixable(p.op, other.op))


def _pending(state: State) -> list[int]:
    """The mesh dims that may still be reduced."""
    partial = [m for m, p in enumerate(state.placed) if p.kind in (P, NORM, SPECIAL)]
    return [m for m in partial if m not in state.introduced]


def _comes_first(state: State, m: int) -> bool:
    """Is it reduced before anything else, and alone? So is a norm beside others."""
    pending, p = _pending(state), state.placed[m]
    if m not in pending or p.kind == P:
        return False
    return p.kind == SPECIAL or not all(_commute(p, state.placed[other]) for other in pending)


def _reduces_together(state: State, group: Group) -> bool:
    first, pending = state.placed[group[0]], _pending(state)
    return all(m in pending and _commute(first, state.placed[m]) for m in group)


def _reductions(state: State, problem: Problem, group: Group) -> Iterator[Move]:
    n, b = problem.ranks(group), problem.bytes_of(state)
    # A merged average is a sum and a division by the ranks of its averaged mesh dims.
    divides = len(group) > 1 and any(state.placed[m].op == "avg" for m in group)
    # Powers are summed, and the root is taken of the sum.
    roots = state.placed[group[0]].kind == NORM
    yield _move(
        "all_reduce",
        group,
        state,
        state.put(group, REPLICATED),
        problem,
        wire=2 * (n - 1) * b // n,
        kernels=1 + divides + 2 * roots,
        traffic=2 * b + 2 * b * divides + 4 * b * roots,
        staging=b * roots,
    )
    for dim in range(len(problem.shape)):
        after = state.put(group, Placed(S, dim))
        if len(group) > 1 and not problem.is_even(after, dim):
            continue
        q = _padded(state, problem, dim, n)
        kernels = traffic = staging = 0
        if dim != 0 or problem.local_shape(state)[dim] % n != 0:
            kernels, traffic, staging = 1, 2 * q, q
        if divides:
            kernels, traffic = kernels + 1, traffic + 2 * q // n
        if roots:
            kernels, traffic = kernels + 2, traffic + 2 * b + 2 * q // n
            staging += b
        yield _move(
            "reduce_scatter",
            group,
            state,
            after,
            problem,
            wire=(n - 1) * q // n,
            kernels=kernels,
            traffic=traffic,
            staging=staging,
        )


def _partition(state: State, problem: Problem, m: int) -> Iterator[Move]:
    to = problem.target.placed[m]
    may_be_made = to.kind in (NORM, SPECIAL) or to.op in _PARTITIONED
    if to in problem.masked or (to.kind == SPECIAL and m not in problem.whole):
        return
    if state.placed[m].kind != R or not may_be_made or not _may_introduce(state, to):
        return
    after = _introduced(state, m, to)
    b = problem.bytes_of(state)
    if to.kind == SPECIAL:  # as the masks of indices are made
        yield _move("partition", (m,), state, after, problem, kernels=6, traffic=8 * b)
    elif to.kind == NORM or to.op == "sum":
        yield _move("partition", (m,), state, after, problem, kernels=1, traffic=2 * b)
    else:  # the data stays as it is
        yield _move("partition", (m,), state, after, problem, peak=b)


def _zero_fill(state: State, problem: Problem, m: int) -> Iterator[Move]:
    p, to = state.placed[m], problem.target.placed[m]
    if p.kind != S or state.orders[p.dim][-1] != m:
        return
    if to.kind != P or to.op != "sum" or not _may_introduce(state, to):
        return
    after = _introduced(state, m, to)
    traffic = problem.bytes_of(after) + 2 * problem.bytes_of(state)
    yield _move("zero_fill", (m,), state, after, problem, kernels=2, traffic=traffic)


def _may_introduce(state: State, to: Placed) -> bool:
    partial = [p for p in state.placed if p.kind in (P, NORM, SPECIAL)]
    return to.kind in (P, NORM, SPECIAL) and all(_commute(to, p) for p in partial)


def _introduced(state: State, m: int, to: Placed) -> State:
    return state.put((m,), to)._replace(introduced=state.introduced | {m})


# Prices -------------------------------------------------------------------------------------------


def _move(
    kind: str,
    group: Group,
    before: State,
    after: State,
    problem: Problem,
    *,
    wire: int = 0,
    kernels: int = 0,
    traffic: int = 0,
    staging: int = 0,
    peak: int | None = None,
) -> Move:
    if peak is None:
        peak = problem.bytes_of(before) + problem.bytes_of(after) + staging
    comm_ps = _comm_ps(problem.model, kind, group, problem.ranks(group), wire)
    local_ps = _local_ps(problem.model, kernels, traffic)
    return Move(kind, group, after, comm_ps, local_ps, wire, kernels, traffic, staging, peak)


def _comm_ps(model: CostModel, kind: str, group: Group, n: int, wire: int) -> int:
    if kind not in COLLECTIVES:
        return 0
    if model.callback is not None:
        return _picoseconds(model.callback(kind, group, n, wire))
    (costs,) = (costs for costs in model.groups if costs.mesh_dims == group)
    pieces = costs.lines[COLLECTIVES.index(kind)].pieces
    piece = [piece for piece in pieces if piece.from_bytes <= wire][-1]
    return _picoseconds(piece.fixed_us + wire * piece.us_per_byte)


def _local_ps(model: CostModel, kernels: int, traffic: int) -> int:
    if kernels == 0:
        return 0
    return _picoseconds(kernels * model.kernel_us + traffic * model.memory_us_per_byte)


def _picoseconds(us: float) -> int:
    return math.floor(1e6 * us + 0.5)
