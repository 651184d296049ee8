"""What decides; and policy ``torch``, torch's own decisions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .. import _torch
from .._torch import DTensorSpec
from ..model.plan_steps import Step
from ..model.question import Choice, Question
from ..redistribution.executor import Executor
from ..redistribution.torch_plans import TorchPlanner
from ..rules.rule import RowsRule
from ..support.stats import Recorder
from .carrying import decides_for_thread, install_carrier
from .core_call import Prepared, answer, prepare
from .decision_cache import DecisionCache

if TYPE_CHECKING:
    from ..redistribution.optimal_planner import ExactPlanner

__all__ = ["Afresh", "Asking", "Chosen", "Policy", "TorchPolicy"]


class Chosen(NamedTuple):
    """A choice among rows, and how it came about.

    Attributes:
        choice: What was chosen.
        prepared: How the core was asked.
        planner: Whose prices decided; None for torch's.
        without: Why policy ``"optimal"`` has no answer, where it leaves this to torch's prices.
        ahead: Did it count what outputs cost at their consumers, as these are known?
    """

    choice: Choice
    prepared: Prepared
    planner: ExactPlanner | None
    without: str | None = None
    ahead: bool = False


class Policy(Protocol):
    """What a decision is made with."""

    @property
    def name(self) -> str:
        """As `enable` takes it."""

    @property
    def has_own_plans(self) -> bool:
        """Does it price and carry out redistributions otherwise than torch?"""

    @property
    def corrects(self) -> bool:
        """Are torch's faults put right?"""

    @property
    def completes(self) -> bool:
        """Have rules the rows of the rule book?"""

    @property
    def executor(self) -> Executor:
        """Carries out again what was carried out before, while the policy is installed."""

    def strictly(self) -> Policy:
        """The same, with errors where it would leave an answer to another policy."""

    def choose(self, question: Question, rule: RowsRule) -> Choice:
        """The choice among the rows of a rule; raises what `core_call.choose` raises."""

    def choose_at_its_price(self, question: Question, rule: RowsRule) -> Choice:
        """`choose`, its costs being those of the sizes of this very question."""

    def prepare(self, question: Question, rule: RowsRule) -> Prepared:
        """The question as the core is asked; see `core_call.prepare` for what it raises."""

    def chosen(self, question: Question, rule: RowsRule) -> Chosen:
        """`choose`, counted nowhere and looked up nowhere, so that the costs are those of these
        very sizes."""

    def cost(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        """Microseconds of a redistribution."""

    def communication(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        """Microseconds of its collectives; 0 where it has none, and only there."""

    def steps(self, src: DTensorSpec, dst: DTensorSpec) -> Sequence[Step] | None:
        """The plan that is carried out; None where torch's is."""

    def one_decision(self) -> AbstractContextManager[None]:
        """Prices asked for in the block belong to one decision."""

    def aside(self) -> AbstractContextManager[None]:
        """What is asked in the block is counted nowhere."""

    def install(self) -> None:
        """Put prices and plans in the place of torch's."""

    def clear(self) -> None:
        """Forget what is held."""


class TorchPolicy:
    """torch's own choices, prices and plans; the choices with its faults, or `corrects` them."""

    name = "torch"
    has_own_plans = False
    completes = False

    def __init__(self, planner: TorchPlanner, recorder: Recorder, corrects: bool = True) -> None:
        self.corrects = corrects
        self._planner = planner
        self._recorder = recorder
        self._cache = DecisionCache()
        self.choose = self._cache.choose
        self.choose_at_its_price = functools.partial(self._cache.choose, at_its_price=True)
        self.cost = planner.cost
        self.communication = planner.cost
        self.one_decision = planner.one_decision
        self.aside = recorder.aside
        self.install_plans = planner.install_plans

    @functools.cached_property
    def executor(self) -> Executor:
        """See `Policy.executor`."""
        recorder = self._recorder
        return Executor(self._planner, recorder.plan_corrected, decides_for_thread(self, recorder))

    def strictly(self) -> TorchPolicy:
        """Itself: it leaves nothing to another."""
        return self

    def prepare(self, question: Question, rule: RowsRule) -> Prepared:
        """See `Policy.prepare`."""
        return prepare(question, rule)

    def chosen(self, question: Question, rule: RowsRule) -> Chosen:
        """See `Policy.chosen`."""
        prepared = prepare(question, rule)
        return Chosen(answer(prepared), prepared, None)

    def install(self) -> None:
        """Put prices and plans in the place of torch's."""
        install_carrier(self, self._recorder)
        _torch.install_cost(self.cost, self.communication)
        self.install_plans()

    def steps(self, src: DTensorSpec, dst: DTensorSpec) -> None:
        """None: the plan is torch's, and its own code or the executor carries it out."""

    def clear(self) -> None:
        """Forget plans and decisions."""
        self._planner.clear()
        self._cache.clear()


class Asking:
    """A policy asked for choices in one of its ways."""

    def __init__(self, policy: Policy, choose: Callable[[Question, RowsRule], Choice]) -> None:
        self.choose = choose
        self.corrects = policy.corrects
        self.completes = policy.completes
        self.has_own_plans = policy.has_own_plans
        self.cost = policy.cost
        self.one_decision = policy.one_decision
        self.aside = policy.aside


class Afresh:
    """A policy asked without its caches, and without counting: for explanations, which need to know
    more of a decision than what it is.

    Attributes:
        found: The choices among rows that were made, in order.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.found: list[Chosen] = []
        self.corrects = policy.corrects
        self.completes = policy.completes
        self.has_own_plans = policy.has_own_plans
        self.cost = policy.cost
        self.one_decision = policy.one_decision
        self.aside = policy.aside

    def choose(self, question: Question, rule: RowsRule) -> Choice:
        """As the policy does."""
        chosen = self._policy.chosen(question, rule)
        self.found.append(chosen)
        return chosen.choice
