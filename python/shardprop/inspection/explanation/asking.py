"""The question that a decision answers, which can be put again with an operand placed otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..._core import Unsupported
from ..._torch import DTensorSpec, OpOverload, TensorMeta, function_schema
from ...errors import ShardpropError
from ...model.question import Choice, NoStrategyError, OutputMeta, Question, with_operands
from ...propagation.answer import SpecMaker
from ...propagation.core_call import Prepared
from ...propagation.policy import Afresh, Chosen, Policy
from ...rules.rule import RowsRule, Rule
from .model import Candidate, Rejection, Row

__all__ = ["Answer", "ExplainedQuestion", "output_names"]


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

    def facts(self, limit: int) -> dict[str, Any]:
        """What a `DecisionExplanation` has of it, with so many candidates at most."""
        facts = self._asdict()
        del facts["choice"]
        return {**facts, "candidates": self.candidates[:limit]}


@dataclass(frozen=True)
class ExplainedQuestion:
    """A question about one op or one element of a list op, and who answers it.

    Attributes:
        question: What is asked.
        rule: By what it is decided.
        policy: The policy that is enabled.
        names: Of the operands.
        reordered: The question about the operands as they are, where `question` is about some of
            them in another shard order (`Route.reordered`).
    """

    question: Question
    rule: Rule
    policy: Policy
    names: tuple[str, ...]
    reordered: Question | None = None

    @property
    def operands(self) -> list[DTensorSpec]:
        """Where the operands are."""
        return self.question.operands

    def prepare(self, rule: RowsRule) -> Prepared:
        """The question as the core is asked; see `core_call.prepare` for what it raises."""
        return self.policy.prepare(self.question, rule)

    def decide(self) -> Chosen:
        """What the policy chooses among rows; counted nowhere, and looked up nowhere, so that the
        costs are those of these very sizes.

        Raises:
            ShardpropError: policy ``"optimal"`` has no answer, and leaves nothing to torch.
            Exception: as `core_call.choose` does.
        """
        chooser = Afresh(self.policy)
        self.rule.choose(self.question, chooser)
        return chooser.found[0]

    def choose(self, question: Question | None = None) -> Choice:
        """The choice alone, by whichever kind of rule.

        Raises:
            As `decide` does.
        """
        return self.rule.choose(question or self.question, Afresh(self.policy))

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
        except (ShardpropError, Unsupported, NoStrategyError):
            return None

    @property
    def follows(self) -> bool:
        """Do the outputs follow the operands?"""
        return self.rule.as_rows is None


def output_names(op: OpOverload, count: int, meta: OutputMeta = None) -> tuple[str, ...]:
    """Names of outputs: those of the schema, or numbers where there are several, or their metadata
    is a list."""
    named = [each.name for each in function_schema(op).returns]
    if len(named) == count and all(named):
        return tuple(map(str, named))
    if count == 1 and (meta is None or isinstance(meta, TensorMeta)):
        return ("output",)
    return tuple(f"output[{index}]" for index in range(count))
