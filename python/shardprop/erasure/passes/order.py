"""When each collective begins, beside the calls that do not need it, and when it is waited for."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from torch import fx

from ... import _torch
from ..._torch.graph_calls import is_pure

__all__ = ["NO_TIME", "Duration", "Durations", "collectives_early_waits_late"]


class Duration(NamedTuple):
    """What a call takes, in microseconds.

    Attributes:
        op_us: Of the stream of the ops.
        local_us: Likewise, for the local work of a redistribution.
        comm_us: Of the stream of the collectives, which does one after another.
    """

    op_us: float = 0.0
    local_us: float = 0.0
    comm_us: float = 0.0


# By call of a graph, of those that take time.
Durations = Callable[[fx.Graph], Mapping[fx.Node, Duration]]

NO_TIME = Duration()
# So many gathered tensors may be there before they are needed, ...
_AHEAD = 6
# ... and so many that are to be scattered may be left waiting for collectives needed sooner.
_BEHIND = 2


def collectives_early_waits_late(graph: fx.Graph, durations: Durations | None = None) -> None:
    """Begin each collective when its operand is there, and wait for it before its first use. Of
    gathered tensors no more than six are there before they are needed: the weights of a block of a
    transformer, as FSDP gathers those of the next block.

    Without durations collectives stay in their order, and other calls where they are. With them,
    whenever a collective is over that one begins which is needed first, and calls that are no ops
    that take time move with it: a list schedule (R. L. Graham, "Bounds on Multiprocessing Timing
    Anomalies", 1969) of two streams. Ops and collectives take the same on all ranks, so that all
    have the same order; local work may differ, and decides nothing.
    """
    for call in [*_Schedule(graph, None if durations is None else durations(graph)).calls()]:
        graph.output_node().prepend(call)


class _Places:
    """Where calls of a graph may be. Those that keep their order are numbered, from 0.

    Attributes:
        of: The number of a call that keeps its order.
        traced: By node, how many of these are before it.
        behind: By node, the last of these that it is made of; -1: there is none.
        needed: By node, the first of these that is made of it; their count: there is none.
        through: By node, the collectives that it is made of with none of these between.
    """

    def __init__(self, graph: fx.Graph, keeps_order: Callable[[fx.Node], bool]) -> None:
        self.of: dict[fx.Node, int] = {}
        self.traced: dict[fx.Node, int] = {}
        self.behind: dict[fx.Node, int] = {}
        self.needed: dict[fx.Node, int] = {}
        self.through: dict[fx.Node, frozenset[fx.Node]] = {}
        for node in graph.nodes:
            read = node.all_input_nodes
            moving = [each for each in read if each not in self.of]
            self.traced[node] = len(self.of)
            self.behind[node] = max((self.of.get(x, self.behind[x]) for x in read), default=-1)
            self.through[node] = frozenset[fx.Node]().union(
                *(
                    [x] if _torch.begins_collective(x.target) else self.through[x]
                    for x in (moving if node.op == "call_function" else ())
                )
            )
            if keeps_order(node):
                self.of[node] = len(self.of)
        for node in reversed(graph.nodes):
            after = (self.of.get(user, self.needed[user]) for user in node.users)
            self.needed[node] = min(after, default=len(self.of))


class _Schedule:
    """The order of the calls of a graph, as it is made."""

    def __init__(self, graph: fx.Graph, durations: Mapping[fx.Node, Duration] | None) -> None:
        self._nodes = [*graph.nodes]
        self._position = {node: at for at, node in enumerate(self._nodes)}
        self._durations = durations
        self._places = _Places(graph, self._keeps_its_place)
        self._collectives = [x for x in self._nodes if _torch.begins_collective(x.target)]
        self._arriving = iter(sorted(self._collectives, key=self._places.behind.__getitem__))
        self._next_to_arrive = next(self._arriving, None)
        self._there: set[fx.Node] = set()  # collectives of which the operand is, to begin
        self._over: dict[fx.Node, float] = {}  # when, by collective that has begun
        self._unwaited = {*self._collectives}
        self._ahead: set[fx.Node] = set()  # gathers that have begun, the last of those in a row
        self._now = self._free = 0.0  # when the stream of the ops is done so far, and the other
        self._made: dict[fx.Node, None] = {}  # in the new order

    def calls(self) -> Iterable[fx.Node]:
        """All nodes but the output."""
        *nodes, output = self._nodes
        for node in nodes:
            if node in self._places.of:
                self._begin_beside(node)
                self._make(node)
            elif not _is_of_collective(node) and not self._would_wait(node):
                self._make(node)
        self._begin_beside(output)
        for node in nodes:
            self._make(node)
        return self._made

    def _keeps_its_place(self, node: fx.Node) -> bool:
        if node.op != "call_function" or _is_of_collective(node):
            return False
        if self._durations is None or self._duration(node).op_us:
            return True
        return node.target is not operator.getitem and not is_pure(node.target)

    def _duration(self, node: fx.Node) -> Duration:
        return NO_TIME if self._durations is None else self._durations.get(node, NO_TIME)

    def _would_wait(self, node: fx.Node) -> bool:
        return not self._unwaited.isdisjoint(self._places.through[node])

    def _begin_beside(self, call: fx.Node) -> None:
        """Begin what is to be under way while a call runs."""
        place = self._places.of.get(call, len(self._places.of))
        self._ahead = {each for each in self._ahead if self._places.needed[each] >= place}
        while (arrived := self._next_to_arrive) and self._places.behind[arrived] < place:
            self._there.add(arrived)
            self._next_to_arrive = next(self._arriving, None)
        if self._durations is not None:
            self._wait_for_what_is_over()
        over = (self._over.get(each, 0.0) for each in self._places.through[call])
        begin = max(self._now, *over, 0.0)
        end = math.inf if call.op == "output" else begin + self._duration(call).op_us
        while self._free <= begin or self._free < end:
            chosen = self._next(place)
            if chosen is None:
                break
            self._make(chosen)

    def _wait_for_what_is_over(self) -> None:
        """Then its operand goes. That of a gather is small."""
        for each in sorted(self._unwaited & self._over.keys(), key=self._position.__getitem__):
            if self._over[each] <= self._now and not _gathers(each):
                for user in each.users:
                    self._make(user)

    def _next(self, place: int) -> fx.Node | None:
        """What begins before the call at a place, if anything may."""
        may = sorted(filter(self._may_begin, self._there), key=self._position.__getitem__)
        may = [
            each
            for each in may
            if not _gathers(each)
            or self._places.traced[each] <= place
            or len(self._ahead - self._places.through[each]) < _AHEAD
        ]
        behind = [each for each in may if _scatters(each)]
        if len(behind) > _BEHIND:
            return behind[0]
        return min(may, key=self._places.needed.__getitem__, default=None)

    def _may_begin(self, collective: fx.Node) -> bool:
        """Is it the next in order, if that is kept, and is what it takes there without waiting?"""
        if self._durations is None and collective is not self._collectives[len(self._over)]:
            return False
        before = self._places.through[collective]
        return all(self._over.get(each, math.inf) <= self._now for each in before)

    def _make(self, node: fx.Node) -> None:
        """Call it, and before it what it is made of."""
        waiting, missing = [node], set[fx.Node]()
        while waiting:
            each = waiting.pop()
            if each in self._made or each in missing:
                continue
            missing.add(each)
            waiting += each.all_input_nodes
            if self._durations is None and _torch.begins_collective(each.target):
                at = self._collectives.index(each)
                waiting += self._collectives[len(self._over) : at]
        for each in sorted(missing, key=self._position.__getitem__):
            self._made[each] = None
            self._pass_time(each)

    def _pass_time(self, node: fx.Node) -> None:
        took = self._duration(node)
        self._now += took.op_us
        if _torch.waits_for_collective(node.target):
            for of in node.all_input_nodes:
                self._now = max(self._now, self._over.get(of, 0.0))
                self._unwaited.discard(of)
        elif _torch.begins_collective(node.target):
            self._free = self._over[node] = max(self._now, self._free) + took.comm_us
            self._there.discard(node)
            self._ahead -= self._places.through[node]
            if _gathers(node):
                self._ahead.add(node)


def _is_of_collective(node: fx.Node) -> bool:
    return _torch.begins_collective(node.target) or _torch.waits_for_collective(node.target)


def _gathers(node: fx.Node) -> bool:
    return bool(node.target is _torch.ALL_GATHER_OP)


def _scatters(node: fx.Node) -> bool:
    return bool(node.target is _torch.REDUCE_SCATTER_OP)
