"""What decides: policy ``torch``, torch's own decisions; or ``optimal``, the cheapest there are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from . import _core, _torch
from ._torch import DTensorSpec
from .engine import Choice, Question, prepare
from .exact import ExactPlanner
from .held import HeldDecisions
from .plans import Step
from .redistribute_hook import redistribute_with
from .redistribution import Redistribution
from .stats import Recorder

__all__ = ["OptimalPolicy", "Policy", "TorchPolicy"]


class Policy(Protocol):
    """What a decision is made with."""

    @property
    def name(self) -> str:
        """As `enable` takes it."""

    def choose(self, question: Question, rule: object) -> Choice:
        """The choice among the rows of a rule; raises what `engine.choose` raises."""

    def cost(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        """Microseconds of a redistribution."""

    def one_decision(self) -> AbstractContextManager[None]:
        """Prices asked for in the block belong to one decision."""

    def install(self) -> None:
        """Put prices and plans in the place of torch's."""

    def clear(self) -> None:
        """Forget what is held."""


class TorchPolicy:
    """torch's own choices, prices and plans."""

    name = "torch"

    def __init__(self, redistribution: Redistribution) -> None:
        self._redistribution = redistribution
        self._held = HeldDecisions()
        self.choose = self._held.choose
        self.cost = redistribution.cost
        self.one_decision = redistribution.one_decision

    def install(self) -> None:
        """Put prices and plans in the place of torch's; torch carries them out."""
        _torch.uninstall_redistribute()
        self._redistribution.install()

    def clear(self) -> None:
        """Forget plans and decisions."""
        self._redistribution.clear()
        self._held.clear()


class OptimalPolicy:
    """The cheapest choices and plans under a cost model; the plan that was priced is carried out.

    What the core does not handle under this policy goes to `otherwise`, counted by reason.
    """

    name = "optimal"

    def __init__(self, planner: ExactPlanner, otherwise: TorchPolicy, recorder: Recorder) -> None:
        self.planner = planner
        self._otherwise = otherwise
        self._recorder = recorder

    def choose(self, question: Question, rule: object) -> Choice:
        """The choice of least total price over the operands, and of their outputs if weighed.

        Raises:
            As `engine.choose` does.
        """
        prepared = prepare(question, rule)
        try:
            return self.planner.choose(question, prepared)
        except _core.Unsupported as reason:
            self._recorder.policy_fell_back(str(reason))
            return self._otherwise.choose(question, rule)

    def cost(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        """Microseconds of the cheapest plan."""
        return self._price(src, dst, 0)

    def communication(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        """Microseconds of the collectives of the cheapest plan: 0 if it has none."""
        return self._price(src, dst, 1)

    def _price(self, src: DTensorSpec, dst: DTensorSpec, part: int) -> float:
        if src.mesh is not dst.mesh and src.mesh != dst.mesh:
            return float("inf")
        try:
            return self.planner.price(src, dst)[part]
        except _core.Unsupported as reason:
            self._recorder.policy_fell_back(str(reason))
            return self._otherwise.cost(src, dst)

    def one_decision(self) -> AbstractContextManager[None]:
        """Prices that go to `otherwise` belong to one decision."""
        return self._otherwise.one_decision()

    def steps(self, src: DTensorSpec, dst: DTensorSpec) -> Sequence[Step] | None:
        """The plan that is carried out; None where torch's is."""
        try:
            steps = self.planner.steps(src, dst)
        except _core.Unsupported as reason:
            self._recorder.policy_fell_back(str(reason))
            return None
        if steps is None:
            self._recorder.policy_fell_back("no plan reaches the target")
        return steps

    def install(self) -> None:
        """Put prices and plans in the place of torch's, and what carries them out."""
        self._otherwise.install()
        _torch.install_cost(self.cost, self.communication)
        _torch.install_redistribute(redistribute_with(self.steps))

    def clear(self) -> None:
        """Forget plans and decisions."""
        self.planner.clear()
        self._otherwise.clear()
