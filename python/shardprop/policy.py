"""What decides: policy ``torch``, torch's own decisions; or ``optimal``, the cheapest there are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from . import _core, _torch
from ._torch import DTensorSpec
from .engine import Choice, Question, prepare
from .errors import ShardpropError
from .exact import ExactPlanner, NotReached, PlanPrice
from .held import HeldDecisions
from .no_plan import why_no_plan, why_no_strategy
from .plans import Step
from .redistribute_hook import redistribute_with
from .redistribution import Redistribution
from .stats import Recorder

__all__ = ["OptimalPolicy", "Policy", "TorchPolicy"]

# A picosecond, the least that the core knows of.
_LEAST_US = 1e-6


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

    What the core does not handle under this policy goes to `otherwise`, counted by reason; where
    the policy is strict it is an error.
    """

    name = "optimal"

    def __init__(
        self,
        planner: ExactPlanner,
        otherwise: TorchPolicy,
        recorder: Recorder,
        strict: bool = False,
    ) -> None:
        self.planner = planner
        self._otherwise = otherwise
        self._recorder = recorder
        self._strict = strict

    @property
    def strict(self) -> bool:
        """Is it an error where torch would decide?"""
        return self._strict

    def strictly(self) -> OptimalPolicy:
        """The same, with errors where torch would decide."""
        return OptimalPolicy(self.planner, self._otherwise, self._recorder, strict=True)

    def choose(self, question: Question, rule: object) -> Choice:
        """The choice of least total price over the operands, and of their outputs if weighed.

        Raises:
            ShardpropError: no strategy fits the memory limit; or the policy is strict, and the core
                does not handle this.
            Exception: as `engine.choose` does.
        """
        limit = self.planner.memory_limit
        try:
            return self.planner.choose(question, prepare(question, rule, always_shards=True))
        except NotReached as reason:
            if self._strict or limit is not None:
                message = why_no_strategy(question.op, question.operands, limit)
                raise ShardpropError(message) from None
            self._leave(question.op, reason)
        except _core.Unsupported as reason:
            self._leave(question.op, reason)
        return self._otherwise.choose(question, rule)

    def cost(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        """Microseconds of the cheapest plan; ``inf`` where there is none.

        Raises:
            ShardpropError: the policy is strict, and the core does not handle this.
        """
        price = self._price(src, dst)
        return price.us if isinstance(price, PlanPrice) else price

    def communication(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        """Microseconds of the collectives of the cheapest plan: 0 if it has none, and more than 0
        if it has one, even one that costs nothing.

        Raises:
            ShardpropError: as `cost` does.
        """
        price = self._price(src, dst)
        if not isinstance(price, PlanPrice):
            return price
        return max(price.comm_us, _LEAST_US) if price.collectives else 0.0

    def _price(self, src: DTensorSpec, dst: DTensorSpec) -> PlanPrice | float:
        """The planner's, or torch's where the core does not handle this."""
        if src.mesh is not dst.mesh and src.mesh != dst.mesh:
            return float("inf")
        try:
            return self.planner.price(src, dst)
        except _core.Unsupported as reason:
            self._leave("price", reason)
            return self._otherwise.cost(src, dst)

    def one_decision(self) -> AbstractContextManager[None]:
        """Prices that go to `otherwise` belong to one decision."""
        return self._otherwise.one_decision()

    def steps(self, src: DTensorSpec, dst: DTensorSpec) -> Sequence[Step] | None:
        """The plan that is carried out; None where torch's is.

        Raises:
            ShardpropError: no plan fits the memory limit; or the policy is strict, and there is no
                plan or the core does not handle this.
        """
        limit = self.planner.memory_limit
        try:
            steps = self.planner.steps(src, dst)
        except _core.Unsupported as reason:
            self._leave("redistribution", reason)
            return None
        if steps is None:
            if self._strict or limit is not None:
                raise ShardpropError(why_no_plan(src, dst, limit))
            self._leave("redistribution", "no plan reaches the target")
        return steps

    def _leave(self, what: object, reason: object) -> None:
        """Count what is left to torch.

        Raises:
            ShardpropError: the policy is strict.
        """
        if self._strict:
            raise ShardpropError(f"{what}: policy 'optimal' has no answer: {reason}.") from None
        self._recorder.policy_fell_back(str(reason))

    def install(self) -> None:
        """Put prices and plans in the place of torch's, and what carries them out."""
        self._otherwise.install()
        _torch.install_cost(self.cost, self.communication)
        forget = self.planner.forget_outdated_decisions
        _torch.install_redistribute(redistribute_with(self.steps, between_ops=forget))

    def clear(self) -> None:
        """Forget plans and decisions."""
        self.planner.clear()
        self._otherwise.clear()
