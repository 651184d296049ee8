"""A bound on what a rank holds while a plan is trained, as rows of the problem."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..graph.errors import UnsolvedError
from ..graph.problem import Problem
from ..graph.solution import PROVED, Solution
from ..graph.solving import attempt, checked_gap, checked_time_limit, solve
from .labelled import Labelled
from .lifetimes import Lifetimes, lifetimes_of
from .memory import Optimizer, PlanMemory, state_bytes
from .program import Node, Ref

__all__ = ["MemoryBound", "solve_within"]

# A node, and bytes by label.
_Sizes = tuple[int, NDArray[np.int64]]
# (nodes, labels, bytes), as `Problem.add_row` takes them.
_Terms = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]
# Rows of memory make a knapsack of a problem: to prove the last bit takes most of the time.
_GAP = 1e-3
# Of solutions under rows that may say too much: no bound comes from them.
_LIKELY_GAP = 0.02
# The row of what is held all the time.
_HELD = "memory of a rank"
# Of the bound: by so much rows that may say too much are wider at first.
_WIDER = 0.1
# Of the bound: what rows that are tried differ by, at least.
_FINE = 0.01
# Of the time that is left, for one solve: others may follow.
_PART = 1 / 3


@dataclass(frozen=True)
class MemoryBound:
    """What the rank that holds most may hold.

    Attributes:
        labelled: The program with what its labels stand for.
        limit: In bytes.
        optimizer: Takes the parameters, and keeps the same for one as it would if there were no
            others; None: nothing is kept for them.
        memory_of: What a rank holds by a solution.
    """

    labelled: Labelled
    limit: float
    optimizer: Optimizer | None
    memory_of: Callable[[Solution], PlanMemory]

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """Of the tensors that the program makes."""
        return lifetimes_of(self.labelled.program)

    @cached_property
    def position_of(self) -> dict[int, int]:
        """By node of an op when it runs."""
        return {node: position for position, node in enumerate(self.lifetimes.order)}

    @cached_property
    def entering(self) -> dict[int, NDArray[np.int64]]:
        """By node of a parameter, buffer or input the bytes of it, and of what an optimizer keeps
        for it, which are there all the time."""
        program = self.labelled.program
        parameters = [*program.parameters.values()]
        nodes = [*parameters, *program.buffers.values(), *program.inputs]
        found = {node: self.labelled.bytes_held(Ref(node)) for node in nodes}
        if self.optimizer is not None:
            trained = [node for node in parameters if node in program.gradient_of]
            shapes = {
                (node, label): (shape, program.meta(Ref(node)).dtype)
                for node in trained
                for label, shape in enumerate(self.labelled.shapes_held(Ref(node)))
            }
            distinct = [*dict.fromkeys(shapes.values())]
            state = dict(zip(distinct, state_bytes(self.optimizer, distinct), strict=True))
            for node in trained:
                extra = [state[shapes[node, label]] for label in range(len(found[node]))]
                found[node] = found[node] + np.array(extra, np.int64)
        return found


class _Rows:
    """Makes the problem with rows for what plans most likely hold at positions.

    What an op reads may be a tensor where it lies, which takes nothing more, or a copy that was
    moved. A node for each operand in question tells which: its labels are the layouts in which it
    is read, first of a copy, then of what lies there already.
    """

    def __init__(self, problem: Problem, bound: MemoryBound) -> None:
        self._problem = problem.copy()
        self._bound = bound
        self._copies: dict[tuple[int, int], _Sizes] = {}

    def at(self, positions: Iterable[int], limit: float) -> Problem:
        """With the row of what any plan holds all the time, and two for each position, as wide as
        a limit in bytes."""
        nodes, order = self._bound.labelled.program.nodes, self._bound.lifetimes.order
        entering = [*self._bound.entering.items()]
        likely: dict[str, list[_Sizes]] = {}
        for position in sorted(positions):
            name = f"memory of a rank at {nodes[order[position]].name}"
            likely[name] = [*entering, *self._running(position)]
            likely[f"{name}, before it"] = [*entering, *self._moving(position)]
        rows = self._problem.copy()  # with the nodes that were added for the rows
        if entering:
            rows.add_row(_arrays(entering), hi=self._bound.limit, name=_HELD)
        for name, of in likely.items():
            if of:
                rows.add_row(_arrays(of), hi=limit, name=name)
        return rows

    def _running(self, position: int) -> Iterator[_Sizes]:
        """While an op runs: what is needed after it, its operands where it reads them, and what it
        makes."""
        lifetimes, labelled = self._bound.lifetimes, self._bound.labelled
        node = labelled.program.nodes[lifetimes.order[position]]
        taking, views = lifetimes.past(position)
        for ref in taking:
            yield ref.node, self._at_least(ref, labelled.bytes_held(ref))
        there = {lifetimes.memory(ref) for ref in taking}
        moved: list[int] = []
        for operand, ref in enumerate(node.operands):
            memory = lifetimes.memory(ref)
            if memory in there or memory not in lifetimes.of:
                moved.append(operand)
            else:
                there.add(memory)
                yield node.index, self._at_least(ref, labelled.bytes_read(node.index, operand))
        for output in range(len(node.outputs)):
            if Ref(node.index, output) not in lifetimes.shares:
                yield node.index, labelled.bytes_held(Ref(node.index, output))
        yield from self._copies_of(node, moved, views)

    def _moving(self, position: int) -> Iterator[_Sizes]:
        """While operands of an op are moved: these, where they lie and where it reads them, and
        what is needed after it."""
        lifetimes, labelled = self._bound.lifetimes, self._bound.labelled
        node = labelled.program.nodes[lifetimes.order[position]]
        taking, views = lifetimes.before(position)
        for ref in taking:
            yield ref.node, self._at_least(ref, labelled.bytes_held(ref))
        yield from self._copies_of(node, range(len(node.operands)), views)

    def _copies_of(
        self, node: Node, operands: Iterable[int], views: Iterable[Ref]
    ) -> Iterator[_Sizes]:
        """What is moved: of a tensor that is read in several ways mostly one copy is made."""
        nodes, shares = self._bound.labelled.program.nodes, self._bound.lifetimes.shares
        copies: dict[Ref, tuple[int, int]] = {}
        for ref in views:
            copies[shares[ref]] = ref.node, nodes[ref.node].operands.index(shares[ref])
        for operand in operands:
            copies.setdefault(node.operands[operand], (node.index, operand))
        for of, operand in copies.values():
            yield self._copy(of, operand)

    def _at_least(self, ref: Ref, held: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of what is expanded the memory is smaller."""
        memory, labelled = self._bound.lifetimes.memory(ref), self._bound.labelled
        of, own = (labelled.program.meta(each).shape.numel() for each in (memory, ref))
        return np.minimum(held, labelled.bytes_held(memory).min()) if own > of else held

    def _copy(self, index: int, operand: int) -> _Sizes:
        """The node that tells of an operand."""
        known = self._copies.get((index, operand))
        if known is not None:
            return known
        labelled = self._bound.labelled
        node = labelled.program.nodes[index]
        source = node.operands[operand]
        wanted = labelled.candidates[index].operands[:, operand]
        given = labelled.candidates[source.node].outputs[:, source.output]
        layouts, of_wanted = np.unique(wanted, return_inverse=True)
        moved = [labelled.bytes_in(source, labelled.layouts[i]) for i in layouts.tolist()]
        name = f"operand {operand} of {node.name}"
        copy = self._problem.add_node(name, np.zeros(2 * len(layouts)))
        same = np.where(np.eye(len(layouts), dtype=bool), 0.0, np.inf)
        self._problem.add_edge(index, copy, np.hstack([same, same]), u_classes=of_wanted)
        there = np.where(given[:, None] == layouts, 0.0, np.inf)
        self._problem.add_edge(source.node, copy, np.hstack([np.zeros_like(there), there]))
        self._copies[index, operand] = copy, np.array(moved + [0] * len(layouts), np.int64)
        return self._copies[index, operand]


def _arrays(terms: Sequence[_Sizes]) -> _Terms:
    return (
        np.concatenate([np.full(len(held), node, np.int32) for node, held in terms]),
        np.concatenate([np.arange(len(held), dtype=np.int32) for _, held in terms]),
        np.concatenate([held.astype(np.float64) for _, held in terms]),
    )


def solve_within(
    problem: Problem,
    bound: MemoryBound,
    *,
    time_limit: float | None = None,
    relative_gap: float = _GAP,
    warm: Solution | None = None,
    **settings: Any,
) -> Solution:
    """The best solution that is found by which no rank holds more than it may.

    What a rank holds by a solution is known when its graphs are made. The problem gets rows for it:
    one of what is held all the time, under which the least cost is a bound on that of all such
    solutions; then, for the ops at which too much is held by a solution, rows of what plans most
    likely hold there. These become narrower as long as too much is held, and wider as long as it
    is not.

    Args:
        problem: Of the plan.
        bound: Of what a rank holds.
        time_limit: Seconds for all of it; what is begun is ended.
        relative_gap: As `solve` takes it.
        warm: Likewise.
        **settings: Others of it.

    Raises:
        InfeasibleError: no plan holds so little.
        UnsolvedError: none was found.
        ShardpropError: as `solve`; or a solution cannot be carried out.
    """
    began = time.monotonic()
    limit, gap = checked_time_limit(time_limit), checked_gap(relative_gap)
    search = _Search(problem, bound, gap, settings)
    slowest = 0.0  # round, without its solve
    while not search.is_over:
        now = time.monotonic()
        left = began + limit - now
        if left <= (0.0 if search.best is None else slowest):
            break
        solving = search.next(left, warm)
        slowest = max(slowest, time.monotonic() - now - solving)
    if search.best is None:
        raise UnsolvedError(
            f"memory: Expected a plan by which a rank holds at most {bound.limit:,.0f} bytes, "
            f"found none in {time.monotonic() - began:.3g} s; none costs less than "
            f"{search.lower:.10g}.",
            search.lower,
        )
    return replace(search.best, seconds=time.monotonic() - began)


class _Search:
    """For solutions by which no rank holds more than it may.

    Attributes:
        best: The cheapest one so far, and what is proved of it.
        lower: None costs less.
        is_over: Is it good enough, or do the rows that are left to try differ too little?
    """

    def __init__(
        self, problem: Problem, bound: MemoryBound, gap: float, settings: dict[str, Any]
    ) -> None:
        self.best: Solution | None = None
        self.lower = -math.inf
        self.is_over = False
        self._of = problem
        self._bound = bound
        self._gap = gap
        self._settings = settings
        self._rows = _Rows(problem, bound)
        self._at: set[int] = set()  # positions that have rows
        self._limit = bound.limit  # of these rows
        self._step = 0.0
        # With the one limit it is found that a rank holds no more than it may, or nothing is found;
        # with the other, that it holds too much.
        self._low, self._high = -math.inf, math.inf
        self._found: Solution | None = None

    def next(self, left: float, warm: Solution | None) -> float:
        """Solve once, and see to other rows; the seconds of the solve, of those that are left."""
        began = time.monotonic()
        rows, is_first = self._rows.at(self._at, self._limit), self._found is None
        found = self._solved(rows, _PART * left, warm)
        seconds = time.monotonic() - began
        if found is None:
            self._low = self._limit
            self._take_other_limit()
            return seconds
        before, self._found = self._found, found
        if is_first:
            self.lower = found.lower_bound
        mine = self._of_problem(found)
        memory = self._bound.memory_of(mine)
        if memory.peak > self._bound.limit:
            self._see_to(memory)
        else:
            self._keep(mine, before)
        return seconds

    def _solved(self, rows: Problem, seconds: float, warm: Solution | None) -> Solution | None:
        """None: nothing is found under rows that may say too much."""
        gap = self._gap
        if self._at:
            best = math.inf if self.best is None else self.best.gap
            gap = max(gap, min(_LIKELY_GAP, best / 2))
        settings = {
            "time_limit": None if math.isinf(seconds) else seconds,
            "relative_gap": gap,
            "warm": self._found or warm,
            **self._settings,
        }
        if not self._at:
            return solve(rows, **settings)
        try:
            return attempt(rows, **settings)
        except UnsolvedError:
            return None

    def _of_problem(self, found: Solution) -> Solution:
        """A solution without the nodes that were added for rows."""
        count = len(self._of.nodes)
        return replace(
            found,
            labels=found.labels[:count],
            lower_bound=min(self.lower, found.objective),
            proved=found.proved and not self._at,
            state=None,
            _nodes=tuple(self._of.nodes),
        )

    def _keep(self, fits: Solution, before: Solution | None) -> None:
        if self.best is None or fits.objective < self.best.objective:
            self.best = fits
        self._low = self._limit
        count = len(fits.labels)
        stays = before is not None and np.array_equal(before.labels[:count], fits.labels)
        self.is_over = (
            not self._at
            or self.best.gap <= self._gap + PROVED
            # Wider rows that bring nothing else do not bind.
            or (stays and math.isinf(self._high))
        )
        self._take_other_limit()

    def _see_to(self, memory: PlanMemory) -> None:
        """To what a rank holds too much of."""
        position = self._bound.position_of.get(-1 if memory.fullest is None else memory.fullest)
        last = len(self._bound.lifetimes.order) - 1
        ends = {self._bound.lifetimes.backward, last} if last >= 0 else set[int]()
        added = ends | (set[int]() if position is None else {position})
        if not added <= self._at:
            self._at |= added
            self._high, self._step = math.inf, 0.0  # that was with fewer rows
            return
        self.is_over |= not self._at  # nothing runs
        self._high = self._limit
        self._step = max(2 * self._step, memory.peak - self._bound.limit)
        self._take_other_limit()

    def _take_other_limit(self) -> None:
        """Between the two, or beyond the one that is known: the further, the more often."""
        fine = _FINE * self._bound.limit
        if math.isinf(self._high):
            self._step = max(2 * self._step, _WIDER * self._bound.limit)
            self._limit += self._step
        elif math.isinf(self._low):
            self._limit = max(self._limit - max(self._step, fine), self._limit / 2)
            self.is_over |= self._limit < fine
        else:
            self.is_over |= self._high - self._low < fine
            self._limit = (self._low + self._high) / 2
