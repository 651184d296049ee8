"""Policy ``optimal``: the cheapest decisions and plans there are, under a cost model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager

from .. import _core
from .._torch import DTensorSpec
from ..errors import ShardpropError
from ..model.plan_steps import Step
from ..model.question import Choice, Question
from ..redistribution.errors import why_no_plan, why_no_strategy
from ..redistribution.executor import Executor
from ..redistribution.optimal_planner import ExactPlanner, PlanPrice
from ..rules.rule import RowsRule
from ..support.stats import Recorder
from .carrying import decides_for_thread, install_carrier, install_prices
from .core_call import Prepared, prepare
from .output_prices import NotReached, OutputPrices, choose_cheapest
from .policy import Chosen, TorchPolicy

__all__ = ["OptimalPolicy"]

# A picosecond, the least that the core knows of.
_LEAST_US = 1e-6


class OptimalPolicy:
    """The cheapest choices and plans under a cost model; the plan that was priced is carried out.

    What the core does not handle under this policy goes to `otherwise`, counted by reason; where
    the policy is strict it is an error.

    Args:
        planner: Prices plans.
        otherwise: Decides what the core does not handle.
        recorder: Counts.
        strict: Is nothing left to `otherwise`?
        completes: Are rules read with the rows that the rule book adds?
        later: What outputs cost at their consumers, as far as these are known; None: they are not.
    """

    name = "optimal"
    has_own_plans = True
    corrects = True

    def __init__(
        self,
        planner: ExactPlanner,
        otherwise: TorchPolicy,
        recorder: Recorder,
        strict: bool,
        completes: bool,
        later: OutputPrices | None = None,
    ) -> None:
        self.planner = planner
        self._otherwise = otherwise
        self._recorder = recorder
        self._strict = strict
        self.completes = completes
        self._later = later

    @property
    def settings(self) -> tuple[object, ...]:
        """What decisions depend on; equal where these are the same."""
        later = None if self._later is None else self._later.settings
        return *self.planner.settings, self.completes, later

    @functools.cached_property
    def executor(self) -> Executor:
        """See `Policy.executor`."""
        planner, recorder = self.planner, self._recorder
        decides = decides_for_thread(self, recorder)
        return Executor(planner, recorder.plan_corrected, decides, planner.notice_groups)

    def strictly(self) -> OptimalPolicy:
        """The same, with errors where torch would decide."""
        return OptimalPolicy(
            *(self.planner, self._otherwise, self._recorder),
            strict=True,
            completes=self.completes,
            later=self._later,
        )

    def choose(self, question: Question, rule: RowsRule) -> Choice:
        """The choice of least total price over the operands, and of their outputs if weighed.

        Raises:
            ShardpropError: no strategy fits the memory limit; or the policy is strict, and the core
                does not handle this.
            Exception: as `core_call.choose` does.
        """
        cheapest = self._cheapest(question, rule)
        if isinstance(cheapest, Chosen):
            return cheapest.choice
        self._recorder.policy_fell_back(cheapest)
        return self._otherwise.choose(question, rule)

    choose_at_its_price = choose

    def choose_toward(
        self, question: Question, rule: RowsRule, consumers: Sequence[DTensorSpec | None]
    ) -> Choice:
        """`choose` under a strict policy, with the price of bringing each output to what its
        consumer wants; None: to the nearest layout without a pending partial."""
        chosen = self._cheapest(question, rule, consumers, 1.0)
        assert isinstance(chosen, Chosen), chosen  # else it has raised
        return chosen.choice

    def chosen(self, question: Question, rule: RowsRule) -> Chosen:
        """See `Policy.chosen`; raises what `choose` raises."""
        cheapest = self._cheapest(question, rule)
        if isinstance(cheapest, Chosen):
            return cheapest
        return self._otherwise.chosen(question, rule)._replace(without=cheapest)

    def prepare(self, question: Question, rule: RowsRule) -> Prepared:
        """See `Policy.prepare`. A placeholder may be filled with plain shards wherever it is."""
        return prepare(question, rule, always_shards=True)

    def _cheapest(
        self,
        question: Question,
        rule: RowsRule,
        consumers: Sequence[DTensorSpec | None] | None = None,
        output_weight: float | None = None,
    ) -> Chosen | str:
        """The choice of least total price, or why the core has none; see `choose_cheapest`.

        Raises:
            ShardpropError, Exception: as `choose` does.
        """
        try:
            prepared = self.prepare(question, rule)
            ahead = self._later if consumers is None else None
            later = None if ahead is None else ahead.of(question)
            choice = choose_cheapest(
                self.planner, question, prepared, consumers, output_weight, later
            )
            if choice.gap:
                self._recorder.not_proved()
            return Chosen(choice, prepared, self.planner, ahead=later is not None)
        except NotReached as declined:
            reason, limit = str(declined), self.planner.memory_limit
            if self._strict or limit is not None:
                message = why_no_strategy(question.op, question.operands, limit)
                raise ShardpropError(message) from None
        except _core.Unsupported as declined:
            reason = str(declined)
            if self._strict:
                raise ShardpropError(_no_answer(question.op, reason)) from None
        return reason

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

    def aside(self) -> AbstractContextManager[None]:
        """What is asked in the block is counted nowhere."""
        return self._recorder.aside()

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
            raise ShardpropError(_no_answer(what, reason)) from None
        self._recorder.policy_fell_back(str(reason))

    def install(self) -> None:
        """Put prices and plans in the place of torch's, and what carries them out."""
        self._otherwise.install_plans()
        install_prices(self, self._recorder)
        install_carrier(self, self._recorder, self.planner.notice_groups)

    def clear(self) -> None:
        """Forget plans and decisions."""
        self.planner.clear()
        self._otherwise.clear()


def _no_answer(what: object, reason: object) -> str:
    return f"{what}: policy 'optimal' has no answer: {reason}."
