"""The cheapest plan by looking at every layout: Dijkstra, with nothing to make it fast."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shardprop.model.plan_steps import Layout, Step

from .moves import Move, Problem, moves
from .state import NORM, REPLICATED, SPECIAL, SS, P, Placed, State, layout_of, state_of

__all__ = ["Total", "all_prices", "cheapest", "cheapest_plan", "price_of_steps", "steps_of"]


class Total(NamedTuple):
    """What a plan minimises, in this order."""

    cost_ps: int
    collectives: int
    peak_bytes: int

    def plus(self, move: Move) -> Total:
        return Total(
            self.cost_ps + move.comm_ps + move.local_ps,
            self.collectives + move.is_collective,
            max(self.peak_bytes, move.peak),
        )


NOTHING = Total(0, 0, 0)


def cheapest(problem: Problem, source: State) -> Total | None:
    """None where no plan leads to the target."""
    for state, total, _ in _explore(problem, source):
        if state.layout() == problem.target:
            return total
    return None


def cheapest_plan(problem: Problem, source: State) -> tuple[Move, ...] | None:
    """One of the plans of that price."""
    for state, _, path in _explore(problem, source):
        if state.layout() == problem.target:
            return path
    return None


def all_prices(problem: Problem, source: State) -> dict[State, Total]:
    """The prices to the target and to all layouts with its partials and strided shards.

    Which of these a plan may introduce depends on the target, so the prices to other layouts are
    other problems.
    """
    wanted = _introducible(problem.target)
    prices: dict[State, Total] = {}
    for state, total, _ in _explore(problem, source):
        if _introducible(state) == wanted:
            prices.setdefault(state.layout(), total)
    return prices


def _introducible(state: State) -> list[Placed]:
    return [p if p.kind in (P, NORM, SPECIAL, SS) else REPLICATED for p in state.placed]


def _explore(problem: Problem, source: State) -> Iterator[tuple[State, Total, tuple[Move, ...]]]:
    """All states that can be reached, the cheapest first."""
    problem = problem.starting(source)
    number = itertools.count()  # states cannot be compared
    queue: list[tuple[Total, int, State, tuple[Move, ...]]] = [(NOTHING, next(number), source, ())]
    best = {source: NOTHING}
    while queue:
        total, _, state, path = heapq.heappop(queue)
        if total > best[state]:
            continue
        yield state, total, path
        for move in moves(state, problem):
            after = total.plus(move)
            if move.after not in best or after < best[move.after]:
                best[move.after] = after
                heapq.heappush(queue, (after, next(number), move.after, (*path, move)))


# Plans of others ----------------------------------------------------------------------------------


def price_of_steps(steps: Sequence[Step], problem: Problem, source: State | None = None) -> Total:
    """What the steps cost.

    Raises:
        ValueError: A step is none of the legal ones, has another price, or does not start where
            the one before ended; or the steps do not lead from `source` to the target.
    """
    if source is not None:
        problem = problem.starting(source)
    state = source
    total = NOTHING
    for number, step in enumerate(steps):
        before = _state_of(step.before, problem)
        if state is None:
            state = before
        elif before != state.layout():
            raise ValueError(f"step {number} starts at {before}, but the plan is at {state}")
        move = _move_of(step, state, problem, number)
        total = total.plus(move)
        state = move.after
    if state is not None and state.layout() != problem.target:
        raise ValueError(f"the steps end at {state}, not at the target {problem.target}")
    return total


def _move_of(step: Step, state: State, problem: Problem, number: int) -> Move:
    after = _state_of(step.after, problem)
    legal = list(moves(state, problem))
    for move in legal:
        same = (move.kind, move.mesh_dims) == (step.kind, tuple(step.mesh_dims))
        if same and move.after.layout() == after:
            break
    else:
        others = "".join(f"\n  {_text(move)}" for move in legal)
        raise ValueError(
            f"step {number}, {step.kind} on {step.mesh_dims} from {state} to {after}, is no legal "
            f"move; these are:{others}"
        )
    # Doubles hold picoseconds, but their microseconds may not be whole ones of these.
    said = (round(1e6 * step.comm_us), round(1e6 * step.local_us), step.wire_bytes, step.peak_bytes)
    expected = (move.comm_ps, move.local_ps, move.wire, move.peak)
    if said != expected:
        raise ValueError(
            f"step {number}, {_text(move)}: (comm ps, local ps, wire bytes, peak bytes) is said to "
            f"be {said}, expected {expected}"
        )
    return move


def _state_of(layout: Layout, problem: Problem) -> State:
    return state_of(layout, problem.model.sizes, len(problem.shape))


def _text(move: Move) -> str:
    return f"{move.kind} on {move.mesh_dims} to {move.after}"


def steps_of(plan: Sequence[Move], source: State) -> list[Step]:
    """A plan as shardprop would show it."""
    steps = []
    before = source
    for move in plan:
        steps.append(
            Step(
                move.kind,
                move.mesh_dims,
                layout_of(before),
                layout_of(move.after),
                comm_us=move.comm_ps / 1e6,
                local_us=move.local_ps / 1e6,
                wire_bytes=move.wire,
                peak_bytes=move.peak,
            )
        )
        before = move.after
    return steps
