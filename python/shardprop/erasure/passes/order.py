"""When each collective begins, beside the calls that do not need it, and when it is waited for."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
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
# So many tensors may be moved ahead of the ops that read them: with durations as many as a block of
# a transformer has weights, for FSDP gathers those of the next block.
_AHEAD, _AHEAD_WITHOUT_DURATIONS = 6, 2
# So many reduce-scatters may be left waiting, their operands held, for what is needed sooner.
_BEHIND = 2


def collectives_early_waits_late(graph: fx.Graph, durations: Durations | None = None) -> None:
    """Begin each collective when its operand is there, and wait for it before its first use; only
    so many tensors are moved ahead of it.

    Without durations collectives stay in their order, and other calls where they are. With them,
    whenever a collective is over that one begins which is needed first, and calls that are no ops
    that take time move with it: a list schedule (R. L. Graham, "Bounds on Multiprocessing Timing
    Anomalies", 1969) of two streams. The order is then the same on ranks that have the same ops;
    local work decides nothing. A collective that nobody waits for, since the call does, is an op.
    """
    calls = _Schedule(graph, None if durations is None else durations(graph)).calls()
    for call in calls:
        graph.output_node().prepend(call)


class _Places:
    """Where calls of a graph may be. Those that keep their order are numbered, from 0.

    Attributes:
        of: The number of a call that keeps its order.
        traced: By node, how many of these are before it.
        behind: By node, the last of these that it is made of; -1: there is none.
        needed: By node, the first of these that is made of it; their count: there is none.
        through: By node, the collectives that it is made of with no call between that keeps its
            order, or is a collective.
    """

    def __init__(self, graph: fx.Graph, keeps_order: Callable[[fx.Node], bool]) -> None:
        self.of: dict[fx.Node, int] = {}
        self.traced: dict[fx.Node, int] = {}
        self.behind: dict[fx.Node, int] = {}
        self.needed: dict[fx.Node, int] = {}
        self.through: dict[fx.Node, frozenset[fx.Node]] = {}
        for node in graph.nodes:
            read = node.all_input_nodes
            self.traced[node] = len(self.of)
            self.behind[node] = max((self.of.get(x, self.behind[x]) for x in read), default=-1)
            self.through[node] = frozenset[fx.Node]().union(
                *(
                    [x] if _torch.is_waited_for(x) else self.through[x]
                    for x in read
                    if x not in self.of and node.op != "output"
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
        self._durations = durations or {}
        self._as_traced = durations is None
        self._places = _Places(graph, self._keeps_its_place)
        self._meeting = [x for x in self._nodes if _torch.begins_collective(x.target)]
        self._arriving = sorted(
            filter(_torch.is_waited_for, self._meeting),
            key=self._places.behind.__getitem__,
            reverse=True,
        )
        self._there: set[fx.Node] = set()  # collectives that are to begin, with their operands
        self._over: dict[fx.Node, float] = {}  # when, by collective that has begun
        self._unwaited = {*self._arriving}
        # Of the collectives that have begun the last of each row by which a tensor is moved ahead.
        self._ahead: set[fx.Node] = set()
        self._place = 0  # before the call at which we are
        self._now = self._free = 0.0  # when the stream of the ops is done so far, and the other
        self._made: dict[fx.Node, None] = {}  # in the new order

    def calls(self) -> list[fx.Node]:
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
        return [*self._made]

    def _keeps_its_place(self, node: fx.Node) -> bool:
        if node.op != "call_function" or _is_of_collective(node):
            return False
        if self._as_traced or self._duration(node).op_us or _torch.begins_collective(node.target):
            return True
        return node.target is not operator.getitem and not is_pure(node.target)

    def _duration(self, node: fx.Node) -> Duration:
        return self._durations.get(node, NO_TIME)

    def _would_wait(self, node: fx.Node) -> bool:
        return not self._unwaited.isdisjoint(self._places.through[node])

    def _begin_beside(self, call: fx.Node) -> None:
        """Begin what is to be under way while a call runs."""
        self._place = self._places.of.get(call, len(self._places.of))
        self._ahead = {each for each in self._ahead if self._places.needed[each] > self._place}
        while self._arriving and self._places.behind[self._arriving[-1]] < self._place:
            self._there.add(self._arriving.pop())
        self._there -= self._over.keys()
        if not self._as_traced:
            self._wait_for_what_is_over()
        over = (self._over.get(each, 0.0) for each in self._places.through[call])
        begin = max([self._now, *over])
        end = math.inf if call.op == "output" else begin + self._duration(call).op_us
        while self._free <= begin or self._free < end:
            chosen = self._next()
            if chosen is None:
                break
            self._make(chosen)

    def _wait_for_what_is_over(self) -> None:
        """So that operands go that are larger than results, or as large."""
        for each in sorted(self._unwaited & self._over.keys(), key=self._position.__getitem__):
            if self._over[each] <= self._now and each.target is not _torch.ALL_GATHER_OP:
                for wait in each.users:
                    self._make(wait)

    def _next(self) -> fx.Node | None:
        """What begins before the call at which we are, if anything may."""
        may = sorted(filter(self._may_begin, self._there), key=self._position.__getitem__)
        behind = [each for each in may if each.target is _torch.REDUCE_SCATTER_OP]
        if len(behind) > _BEHIND:
            return behind[0]
        return min(may, key=self._places.needed.__getitem__, default=None)

    def _may_begin(self, collective: fx.Node) -> bool:
        if self._as_traced and collective is not self._meeting[len(self._over)]:
            return False
        before = self._places.through[collective]
        if any(self._over.get(each, math.inf) > self._now for each in before):
            return False
        most = _AHEAD_WITHOUT_DURATIONS if self._as_traced else _AHEAD
        return not self._is_ahead(collective) or len(self._ahead - before) < most

    def _is_ahead(self, collective: fx.Node) -> bool:
        """Is it, if it begins now, the last of a row that moves a tensor ahead of an op?"""
        if self._places.needed[collective] == len(self._places.of):
            return False
        early = self._places.traced[collective] > self._place
        return early or not self._ahead.isdisjoint(self._places.through[collective])

    def _make(self, node: fx.Node) -> None:
        """Call it, and before it what it is made of."""
        waiting, missing = [node], set[fx.Node]()
        while waiting:
            each = waiting.pop()
            if each in self._made or each in missing:
                continue
            missing.add(each)
            waiting += each.all_input_nodes
            if self._as_traced and _torch.begins_collective(each.target):
                waiting += self._meeting[len(self._over) : self._meeting.index(each)]
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
            if not _torch.is_waited_for(node):
                self._now = self._free
                return
            self._there.discard(node)
            is_ahead = self._is_ahead(node)
            self._ahead -= self._places.through[node]
            if is_ahead:
                self._ahead.add(node)


def _is_of_collective(node: fx.Node) -> bool:
    return _torch.waits_for_collective(node.target) or _torch.is_waited_for(node)
