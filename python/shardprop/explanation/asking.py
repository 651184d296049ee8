"""The question that a decision answers, which can be put again with an operand placed otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import engine
from .._core import Unsupported
from .._torch import DTensorSpec, TensorMeta
from ..decision import ask
from ..engine import Choice, Prepared, Question, prepare
from ..errors import ShardpropError
from ..exact import ExactPlanner, NotReached
from ..no_plan import why_no_strategy
from ..outputs import SpecMaker
from ..policy import OptimalPolicy, Policy
from ..rules import FollowRule
from .model import Candidate, Rejection, Row

__all__ = ["Answer", "Asked", "Decided", "output_names", "with_operands"]


class Answer(NamedTuple):
    """What came of a question.

    Attributes:
        choice: The decision; None where there is none.
        candidates: The cheapest, the winner first.
        reason: As in `DecisionExplanation`, and so are the others.
    """

    choice: Choice | None
    candidates: tuple[Candidate, ...]
    reason: str
    why: str
    valid: int = 0
    considered: int = 0
    rows: tuple[Row, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None


class Decided(NamedTuple):
    """A choice among rows.

    Attributes:
        choice: What was chosen.
        prepared: How the core was asked.
        planner: Whose prices decided; None for torch's.
        without: Why policy ``"optimal"`` had no answer, where it left this to torch's prices.
    """

    choice: Choice
    prepared: Prepared
    planner: ExactPlanner | None
    without: str | None = None


@dataclass(frozen=True)
class Asked:
    """A question about one op or one element of a list op, and who answers it.

    Attributes:
        question: What is asked.
        rule: By what it is decided.
        policy: The policy that is enabled.
        names: Of the operands.
    """

    question: Question
    rule: Any
    policy: Policy
    names: tuple[str, ...]

    @property
    def operands(self) -> list[DTensorSpec]:
        """Where the operands are."""
        return self.question.operands

    def prepare(self) -> Prepared:
        """The question as the core is asked; see `engine.prepare` for what it raises."""
        is_optimal = isinstance(self.policy, OptimalPolicy)
        return prepare(self.question, self.rule, always_shards=is_optimal)

    def decide(self, question: Question | None = None) -> Decided:
        """What the policy chooses among rows; counted nowhere, and looked up nowhere, so that the
        costs are those of these very sizes.

        Raises:
            ShardpropError: policy ``"optimal"`` has no answer, and leaves nothing to torch.
            Exception: as `engine.choose` does.
        """
        found: list[Decided] = []

        def choose(question: Question, rule: Any) -> Choice:
            found.append(_decided(question, rule, self.policy))
            return found[0].choice

        ask(self.rule, self.policy, choose)(question or self.question)
        return found[0]

    def choose(self, question: Question | None = None) -> Choice:
        """The choice alone, by whichever kind of rule.

        Raises:
            As `decide` does.
        """
        if self.follows:
            return ask(self.rule, self.policy)(question or self.question)
        return self.decide(question).choice

    def spec_maker(self, strided_is_order: bool = True) -> SpecMaker:
        """Makes specs of a decision as torch makes them."""
        question = self.question
        positional = question.operands[: question.positional]
        return SpecMaker(positional, question.operands, strided_is_order)

    def choose_with(self, operand: int, spec: DTensorSpec) -> Choice | None:
        """The decision with one operand placed otherwise; None if there is none."""
        operands = [*self.operands]
        operands[operand] = spec
        try:
            return self.choose(with_operands(self.question, operands))
        except (ShardpropError, Unsupported, engine.NoStrategyError):
            return None

    @property
    def follows(self) -> bool:
        """Do the outputs follow the operands?"""
        return isinstance(self.rule, FollowRule)


def _decided(question: Question, rule: Any, policy: Policy) -> Decided:
    without = None
    if isinstance(policy, OptimalPolicy):
        limit = policy.planner.memory_limit
        try:
            prepared = prepare(question, rule, always_shards=True)
            return Decided(policy.planner.choose(question, prepared), prepared, policy.planner)
        except NotReached as reason:
            if policy.strict or limit is not None:
                message = why_no_strategy(question.op, question.operands, limit)
                raise ShardpropError(message) from None
            without = str(reason)
        except Unsupported as reason:
            if policy.strict:
                raise ShardpropError(f"{question.op}: no answer: {reason}.") from None
            without = str(reason)
    prepared = prepare(question, rule)
    return Decided(engine.answer(prepared), prepared, None, without)


def with_operands(question: Question, operands: Sequence[DTensorSpec]) -> Question:
    """The question with other specs for its operands."""
    rest = iter(operands)

    def filled(item: Any) -> Any:
        if isinstance(item, DTensorSpec):
            return next(rest)
        if type(item) in (list, tuple):
            return type(item)(map(filled, item))
        return item

    args = tuple(map(filled, question.args))
    kwargs = {name: filled(value) for name, value in question.kwargs.items()}
    return question._replace(args=args, kwargs=kwargs, operands=list(operands))


def output_names(question: Question, count: int) -> tuple[str, ...]:
    """Names of outputs: those of the schema, or numbers where there are several."""
    named = [each.name for each in question.op._schema.returns]
    if len(named) == count and all(named):
        return tuple(map(str, named))
    if count == 1 and (question.meta is None or isinstance(question.meta, TensorMeta)):
        return ("output",)
    return tuple(f"output[{index}]" for index in range(count))
