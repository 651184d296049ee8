"""torch alone against shardprop: the same training, every decision compared."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import shardprop

from ... import _torch
from ..decisions import Decision, answer_of, clear_every_cache
from ..ranks import fake_ranks
from .report import Report
from .settings import Settings
from .train import Training, train

__all__ = ["Agreement", "Difference", "agree", "run_compared"]

_SHOWN_DIFFERENCES = 5

# Asks the question of a decision again.
Decide = Callable[[Decision], Decision]


@dataclass(frozen=True)
class Difference:
    """One question with the two answers; `torch` is what it answers with its history cleared."""

    question: object
    shardprop: object
    torch: object


@dataclass(frozen=True)
class Agreement:
    """How the decisions of two runs relate; every question of either run is counted once.

    Attributes:
        equal: Asked in both runs, answered alike.
        equal_once_torch_history_is_cleared: Alike once torch decides again with empty planner
            caches.
        different: Those that differ.
        same_order: Whether both runs asked the same questions in the same order.
    """

    equal: int
    equal_once_torch_history_is_cleared: int
    different: tuple[Difference, ...]
    same_order: bool

    @property
    def all_equal(self) -> bool:
        """No decision differs, torch's planner history aside."""
        return not self.different


def run_compared(settings: Settings) -> Report:
    """Train twice on fake ranks, first with shardprop, then with torch alone."""
    ours: list[Decision] = []
    theirs: list[Decision] = []
    shardprop.disable()  # SHARDPROP=1 in the environment would decide for torch too
    with fake_ranks(settings.ranks):
        clear_every_cache()
        with shardprop.enabled():
            with_shardprop = train(settings, "shardprop", _into(ours))
        clear_every_cache()
        alone = train(settings, "torch alone", _into(theirs))
        agreement = agree(ours, theirs, _ask_shardprop, _ask_torch)
    return _report(settings, with_shardprop, alone, agreement)


def _report(settings: Settings, ours: Training, theirs: Training, found: Agreement) -> Report:
    ratio = theirs.propagation / max(ours.propagation, 1e-9)
    rows = [
        (
            name,
            f"{run.propagation:.4f} s in propagation, {run.decisions} decisions, "
            f"first step {run.steps[0].total:.3f} s",
        )
        for name, run in (("torch alone", theirs), ("shardprop", ours))
    ]
    rows += [
        ("ratio", f"torch spent {ratio:.0f} times as long in propagation"),
        ("order", "the same" if found.same_order else "differs, so paired by question"),
        ("equal", str(found.equal)),
    ]
    if cleared := found.equal_once_torch_history_is_cleared:
        rows.append(("", f"and {cleared} equal once torch's planner history is cleared"))
    rows.append(("different", str(len(found.different))))
    for one in found.different[:_SHOWN_DIFFERENCES]:
        answers = (("asked", one.question), ("shardprop", one.shardprop), ("torch", one.torch))
        rows += [(f"  {name}", str(value)) for name, value in answers]
    return Report(
        settings,
        f"fake backend, {settings.steps} steps, caches cold",
        rows,
        {
            "torch": {"steps": asdict(theirs)["steps"]},
            "shardprop": {"steps": asdict(ours)["steps"]},
            "ratio": ratio,
            "all_equal": found.all_equal,
            **asdict(found),
        },
        good=found.all_equal,
        verdict="All decisions are equal." if found.all_equal else "Decisions differ.",
    )


def _into(decisions: list[Decision]) -> Callable[..., None]:
    return lambda schema, result: decisions.append(Decision.of(schema, result))


def agree(
    ours: Sequence[Decision], theirs: Sequence[Decision], by_shardprop: Decide, by_torch: Decide
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
        equal_once_torch_history_is_cleared=len(unsettled) - len(different),
        different=tuple(different),
        same_order=[d.question for d in ours] == [d.question for d in theirs],
    )


def _ask_torch(decision: Decision) -> Decision:
    """torch's own answer, its planner caches cleared; shardprop must be disabled."""
    _torch.forget_plans()
    return _ask(decision)


def _ask_shardprop(decision: Decision) -> Decision:
    """shardprop's answer to a question that only torch alone was asked."""
    with shardprop.enabled():
        return _ask(decision)


def _ask(decision: Decision) -> Decision:
    """The answer of the hook that is installed, past the caches of DTensor's dispatcher."""
    return replace(decision, answer=answer_of(_torch.propagate, decision.schema))
