"""What decides; and policy ``torch``, torch's own decisions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ._torch import DTensorSpec
from .carrying import install_carrier
from .counting import Recorder
from .engine import Choice, Question
from .held import HeldDecisions
from .plans import Step
from .redistribution import Redistribution

__all__ = ["Policy", "TorchPolicy"]


class Policy(Protocol):
    """What a decision is made with."""

    @property
    def name(self) -> str:
        """As `enable` takes it."""

    @property
    def has_own_plans(self) -> bool:
        """Does it carry out redistributions otherwise than torch?"""

    def choose(self, question: Question, rule: object) -> Choice:
        """The choice among the rows of a rule; raises what `engine.choose` raises."""

    def cost(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        """Microseconds of a redistribution."""

    def communication(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        """Microseconds of its collectives; 0 where it has none, and only there."""

    def steps(self, src: DTensorSpec, dst: DTensorSpec) -> Sequence[Step] | None:
        """The plan that is carried out; None where torch's is."""

    def one_decision(self) -> AbstractContextManager[None]:
        """Prices asked for in the block belong to one decision."""

    def install(self) -> None:
        """Put prices and plans in the place of torch's."""

    def clear(self) -> None:
        """Forget what is held."""


class TorchPolicy:
    """torch's own choices, prices and plans."""

    name = "torch"
    has_own_plans = False

    def __init__(self, redistribution: Redistribution, recorder: Recorder) -> None:
        self._redistribution = redistribution
        self._recorder = recorder
        self._held = HeldDecisions()
        self.choose = self._held.choose
        self.cost = redistribution.cost
        self.communication = redistribution.cost
        self.one_decision = redistribution.one_decision

    def install(self) -> None:
        """Put prices and plans in the place of torch's; torch carries them out."""
        install_carrier(self, self._recorder)
        self._redistribution.install()

    def steps(self, src: DTensorSpec, dst: DTensorSpec) -> None:
        """None: torch's plan is carried out."""

    def clear(self) -> None:
        """Forget plans and decisions."""
        self._redistribution.clear()
        self._held.clear()
