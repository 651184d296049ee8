"""torch alone against shardprop: the same training, every decision compared."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import shardprop

from ... import _torch
from .decisions import Decision
from .settings import Settings
from .train import Observer, StepTime, Training, fake_ranks, train

SLOW_MESH_DIMS = 3
"""From this mesh rank on torch alone needs about an hour: its planner meets strided shards."""


@dataclass(frozen=True)
class Difference:
    """One question with the two answers; `torch` is what it answers with its history cleared."""

    question: object
    shardprop: object
    torch: object


@dataclass(frozen=True)
class Agreement:
    """How the decisions of two runs relate; every question of either run is counted once."""

    equal: int
    """Asked in both runs, answered alike."""
    equal_once_cleared: int
    """Alike once torch decides again with empty planner caches."""
    different: tuple[Difference, ...]
    same_order: bool
    """Whether both runs asked the same questions in the same order."""

    @property
    def all_equal(self) -> bool:
        """No decision differs, torch's planner history aside."""
        return not self.different


@dataclass(frozen=True)
class Comparison:
    """The two runs and how their decisions relate."""

    shardprop: Training
    torch: Training
    agreement: Agreement

    @property
    def ratio(self) -> float:
        """How many times longer torch alone spent in propagation."""
        return self.torch.propagation / max(self.shardprop.propagation, 1e-9)


Run = Callable[[str, Observer], tuple[Observer, Callable[[StepTime], None]]]
"""Given the name of a run and its observer: what to call per decision and per step instead."""


def compare(settings: Settings, display: Run) -> Comparison:
    """Train twice on fake ranks, first with shardprop, then with torch alone."""
    ours, theirs = _Recording(), _Recording()
    with fake_ranks(settings.mesh.ranks):
        clear_every_cache()
        shardprop.enable()
        try:
            with_shardprop = train(settings, *display("shardprop", ours))
        finally:
            shardprop.disable()
        clear_every_cache()
        alone = train(settings, *display("torch alone", theirs))
        agreement = agree(
            ours.decisions, theirs.decisions, decide_with_shardprop, decide_with_torch
        )
    return Comparison(with_shardprop, alone, agreement)


def clear_every_cache() -> None:
    """Make the next run start cold, in shardprop and in torch."""
    shardprop.clear_caches()
    _torch.clear_torch_caches()


Decide = Callable[[Decision], Decision]
"""Ask the question of a decision again."""


def agree(
    ours: Sequence[Decision],
    theirs: Sequence[Decision],
    by_shardprop: Decide,
    by_torch: Decide,
) -> Agreement:
    """Pair the decisions by question, in order; settle what is left by asking again.

    torch's planner keeps sets that only grow, so its answer can depend on what it planned before.
    One such answer changes the placements that follow, and with them the questions: a question
    that only one run asked is put to the other side here, so nothing goes unchecked.
    """
    waiting: defaultdict[object, deque[Decision]] = defaultdict(deque)
    for decision in theirs:
        waiting[decision.question].append(decision)
    equal = 0
    unsettled: list[Decision] = []
    for decision in ours:
        answers = waiting[decision.question]
        if answers and answers.popleft().answer == decision.answer:
            equal += 1
        else:
            unsettled.append(decision)
    unsettled += [by_shardprop(decision) for answers in waiting.values() for decision in answers]
    different: list[Difference] = []
    for decision in unsettled:
        again = by_torch(decision)
        if again.answer != decision.answer:
            different.append(Difference(decision.question, decision.answer, again.answer))
    return Agreement(
        equal=equal,
        equal_once_cleared=len(unsettled) - len(different),
        different=tuple(different),
        same_order=[d.question for d in ours] == [d.question for d in theirs],
    )


def decide_with_torch(decision: Decision) -> Decision:
    """torch's own answer, its planner caches cleared; shardprop must be disabled."""
    _torch.forget_plans()
    return _decide(decision)


def decide_with_shardprop(decision: Decision) -> Decision:
    """shardprop's answer to a question that only torch alone was asked."""
    with shardprop.enabled():
        return _decide(decision)


def _decide(decision: Decision) -> Decision:
    """The answer of whoever is hooked in, past the caches of DTensor's dispatcher."""
    result: object
    try:
        result = _torch.propagate(decision.schema)
    except Exception as error:  # torch's errors are answers too, and are compared by their text
        result = error
    return Decision.of(decision.schema, result)


class _Recording:
    """An observer that keeps every decision in order."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def __call__(self, schema: object, result: object, _: float) -> None:
        self.decisions.append(Decision.of(schema, result))
