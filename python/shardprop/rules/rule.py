"""What the core decides an op by: one class per kind of rule, all of them asked in one way.

A rule says what it is (`RuleFacts`), which question it answers, how it is asked, and what it
refuses. `shardprop.propagation.route` looks for the rule of an op (inside a decomposition
`decomposition.by_rows` does, for calls that rows alone decide).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from .. import _core, _torch
from .._torch import DTensorSpec, OpOverload, OpSchema, Placement
from ..errors import ShardpropError
from ..model.question import (
    Choice,
    NoStrategyError,
    OutputMeta,
    Question,
    question_of,
    written_cells,
)
from .notation.rule_text import Notation
from .places import function_place

if TYPE_CHECKING:
    from ..corrections.correction import Correction
    from .follow_rule import Candidate

__all__ = [
    "Chooser",
    "DecompositionRule",
    "EntryRule",
    "Origin",
    "Rows",
    "RowsRule",
    "Rule",
    "RuleFacts",
    "RuleKind",
    "TorchRule",
    "declining_the_unexpected",
    "rule_of_entry",
    "unexpected",
]

_T = TypeVar("_T")

# Per row the cells of outputs and operands on one mesh dim: placements, placeholders, None.
Rows = Sequence[Sequence[Any]]

# What the body of a rule of ours raises on arguments that it does not expect.
_UNEXPECTED = (LookupError, TypeError, ValueError, AttributeError)


class RuleKind(str, Enum):
    """How a rule comes to its answer; equal to its name in JSON."""

    ROWS = "rows"
    FOLLOWS = "follows operands"
    DECOMPOSITION = "decomposition"
    FULL_MESH_STRATEGY = "torch's full-mesh strategy"
    PROPAGATION_RULE = "torch's propagation rule"
    HANDLER = "custom handler"
    READ_OUT = "reads a number out"
    NONE = "none"


class Origin(str, Enum):
    """Whose rule it is; equal to its name in JSON."""

    TORCH = "torch"
    SHARDPROP = "shardprop"
    REGISTERED = "registered"


@dataclass(frozen=True)
class RuleFacts:
    """What decides an op.

    Attributes:
        kind: How it comes to its answer.
        origin: Whose it is.
        where: File, line and function, or what was registered and where; how to give the op a rule
            where there is none.
    """

    kind: RuleKind
    origin: Origin
    where: str


class Chooser(Protocol):
    """What chooses among rows, and prices: a policy, or what stands in for one."""

    @property
    def corrects(self) -> bool:
        """Are torch's faults put right?"""

    @property
    def completes(self) -> bool:
        """Have rules the rows of the rule book?"""

    @property
    def has_own_plans(self) -> bool:
        """Does it price and carry out redistributions otherwise than torch?"""

    def choose(self, question: Question, rule: RowsRule) -> Choice:
        """The choice among the rows of a rule."""

    def cost(self, src: DTensorSpec, dst: DTensorSpec) -> float:
        """Microseconds of a redistribution."""

    def one_decision(self) -> AbstractContextManager[None]:
        """Prices asked for in the block belong to one decision."""

    def aside(self) -> AbstractContextManager[None]:
        """What is asked in the block is counted nowhere."""


class Rule:
    """What the core decides an op by.

    Attributes:
        kind: How it comes to its answer.
        origin: Whose it is.
        by_element: A list op is decided element by element.
        is_torchs_entry: It stands in torch's registry of single-dim rules.
        refused_by_torch: torch refuses the op on these operands; the core decides it nevertheless.
        stands_in: Nobody has a rule for the op: see `without_rule`.
    """

    kind: ClassVar[RuleKind]
    origin: Origin
    by_element: ClassVar[bool] = True
    is_torchs_entry: ClassVar[bool] = False
    refused_by_torch: bool = False
    stands_in: bool = False

    def facts(self, op: OpOverload) -> RuleFacts:
        """What it is, as the rule of `op`."""
        return RuleFacts(self.kind, self.origin, self.place(op))

    def place(self, op: OpOverload) -> str:
        """Where its code is, or what was registered and where."""
        raise NotImplementedError

    def check(self, schema: OpSchema, meta: OutputMeta) -> None:
        """What torch checks before it asks the rule.

        Raises:
            AssertionError: torch's own, where the metadata has not as many outputs as the op.
        """

    def question(self, schema: OpSchema, meta: OutputMeta) -> Question:
        """What an op asks that is not decided element by element; `meta` is that of its outputs.

        Raises:
            AssertionError: as `check`.
            ValueError: torch's own, where it looks for a mesh and no operand has one.
        """
        return question_of(schema, meta)

    def choose(self, question: Question, chooser: Chooser) -> Choice:
        """The answer to a question.

        Raises:
            _core.Unsupported: the core does not handle this; torch decides, or says what is wrong.
            _core.RuleError: the rule is malformed.
            NoStrategyError: there is nothing to choose.
            Exception: what the rule function raises.
        """
        raise NotImplementedError

    @property
    def notation(self) -> Notation | None:
        """The rule as the program registered it in the notation; None where it is a function."""
        return None

    @property
    def as_rows(self) -> RowsRule | None:
        """Itself where it lists rows for one mesh dim, among which the core searches.

        None where the outputs follow the operands.
        """
        return None

    def candidates(self, question: Question) -> list[Candidate]:
        """The ways to run the op that a rule names itself which lists no rows.

        Raises:
            _core.Unsupported, NoStrategyError: it does not apply.
        """
        return []

    def refuse(self, schema: OpSchema, declined: Exception) -> None:
        """Raise where torch's own code could not say what is wrong.

        `declined` is why the core has no decision by this rule. Most rules refuse nothing: torch is
        asked.
        """


class RowsRule(Rule):
    """A rule that lists what an op allows on one mesh dim, row by row.

    Attributes:
        outputs: How many cells of each row are outputs; None: as torch counts them.
        different_mesh_args: Positions of the arguments that may be on another mesh.
        allow_uneven_sharding: Ranks may hold nothing of a sharded dim.
        allow_unbacked_sharding: What torch assumes where an unbacked size may not be shardable.
        accepts: A filter over whole strategies, as torch 2.15 writes them.
        keeps_written_in_place: What an in-place op writes into keeps its placements.
        leaves_written: So does all that an op writes into, and what it returns of that.
        leaves_unmovable: Operands that torch's dispatcher does not move stay where they are, and
            placeholders may ask something of sizes.
        has_fixed_code: Its rows depend on nothing but the arguments, so they may be held.
    """

    kind = RuleKind.ROWS
    outputs: int | None = None
    different_mesh_args: list[int] | None = None
    allow_uneven_sharding: bool = False
    allow_unbacked_sharding: bool | None = None
    accepts: Callable[..., bool] | None = None
    keeps_written_in_place: bool = True
    leaves_written: bool = False
    leaves_unmovable: bool = False
    has_fixed_code: bool = False

    @property
    def as_rows(self) -> RowsRule:
        """Itself."""
        return self

    def rows_of(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: OutputMeta
    ) -> Rows:
        """The rows of a call, tensors being TensorMeta; `meta` is that of the outputs.

        Raises:
            Exception: what the rule function raises.
        """
        raise NotImplementedError

    def origins(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: OutputMeta
    ) -> Sequence[str] | None:
        """For each row of `rows_of` the part of the rule that it follows from; None where that is
        not known."""
        return None

    def rows_for_any_sizes(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Rows:
        """The rows of a call that hold whatever the sizes on the ranks are."""
        return self.rows_of(op, args, kwargs, None)

    def choose(self, question: Question, chooser: Chooser) -> Choice:
        """See `Rule.choose`."""
        return chooser.choose(question, self)


class EntryRule(RowsRule):
    """A rule that stands in torch's registry of single-dim rules."""

    is_torchs_entry = True

    def check(self, schema: OpSchema, meta: OutputMeta) -> None:
        """See `Rule.check`."""
        _torch.validate_meta_count(schema, meta)

    def question(self, schema: OpSchema, meta: OutputMeta) -> Question:
        """See `Rule.question`."""
        _torch.validate_meta_count(schema, meta)
        first = schema.args_schema[0] if schema.args_schema else None
        mesh = first.mesh if isinstance(first, DTensorSpec) else _torch.mesh_of(schema)
        return question_of(schema, meta, mesh)


class TorchRule(EntryRule):
    """An entry that is torch's own, or that a program put there by torch's functions."""

    def __init__(self, op: OpOverload, entry: Any) -> None:
        self.entry = entry
        self.different_mesh_args = entry.different_mesh_args
        self.allow_uneven_sharding = entry.allow_uneven_sharding
        self.allow_unbacked_sharding = entry.allow_unbacked_sharding
        self.accepts = getattr(entry, "full_mesh_strategy_filter", None)
        is_torchs = _torch.came_with_torch(op, entry.func)
        self.origin = Origin.TORCH if is_torchs else Origin.REGISTERED
        self.has_fixed_code = is_torchs  # others may look at what no key knows of

    def rows_of(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: OutputMeta
    ) -> Rows:
        """See `RowsRule.rows_of`."""
        rows = self.entry.func(op, args, kwargs)
        if not isinstance(rows, (list, tuple)):
            raise _core.Unsupported(f"rows in a {type(rows).__name__}")
        return rows

    def place(self, op: OpOverload) -> str:
        """See `Rule.place`."""
        return function_place(self.entry.func)


def rule_of_entry(op: OpOverload, entry: Any) -> RowsRule:
    """The rule that an op's entry in torch's registry of single-dim rules stands for: rules that
    were registered here are such entries themselves."""
    return entry if isinstance(entry, RowsRule) else TorchRule(op, entry)


@dataclass(frozen=True)
class DecompositionRule(RowsRule):
    """The rows that an op's decomposition gives for one call.

    torch expands them as they are: in-place ops are not treated apart (unless `leaves_written`),
    and uneven shards are refused, as by its ``expand_to_full_mesh_op_strategy`` when it is told
    nothing else. The all-Replicate row must be among them.

    Attributes:
        rows: Placements of outputs and operands on one mesh dim.
        outputs: How many of each row are outputs.
        refused_by_torch: torch refuses the op; see `decomposition.extensions`.
        correction: A fault of torch's in the decision of a call inside, which is put right.
        torch_rows: All rows that torch finds, where some of them do not hold on local tensors
            (`decomposition.local_run`) and are left out of `rows`.
    """

    rows: list[list[Placement]]
    outputs: int
    refused_by_torch: bool = False
    correction: Correction | None = None
    torch_rows: list[list[Placement]] | None = None
    leaves_written: bool = False

    kind = RuleKind.DECOMPOSITION
    origin = Origin.TORCH
    by_element = False
    keeps_written_in_place = False

    def rows_of(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], meta: OutputMeta
    ) -> Rows:
        """The rows, for any arguments."""
        return self.rows

    @property
    def is_as_torchs(self) -> bool:
        """Does torch choose among the same strategies?"""
        return self.torch_rows is None and not self.leaves_written

    def would_misplace(self, question: Question, chooser: Chooser) -> bool:
        """Would one of the rows that are left out be chosen, were it there?

        True also where one of them is malformed, a shard of a tensor dim that the operand does not
        have: torch's own code would be asked then.
        """
        if self.torch_rows is None:
            return False
        try:
            choice = self._torchs_choice(question, chooser)
        except _core.RuleError:
            return True
        cells = () if choice is None else (*choice.outputs, *choice.operands)
        placed = [cell for cell in cells if cell is not None]
        return any([*row] not in self.rows for row in zip(*placed, strict=True))

    def would_move(self, question: Question, chooser: Chooser) -> bool:
        """Would a tensor be moved that the op writes into, if it had not to stay?"""
        if not self.leaves_written:
            return False
        try:
            choice = self._torchs_choice(question, chooser)
        except _core.RuleError:
            return False
        cells = () if choice is None else (*choice.outputs, *choice.operands)
        return any(
            cells[cell] != tuple(question.operands[operand].placements)
            for cell, operand in written_cells(question, self.outputs)
            if cell < len(cells)
        )

    def _torchs_choice(self, question: Question, chooser: Chooser) -> Choice | None:
        """The choice among all rows that torch finds; None where there is none."""
        rows = self.rows if self.torch_rows is None else self.torch_rows
        try:
            return chooser.choose(question, replace(self, rows=rows, leaves_written=False))
        except (_core.Unsupported, NoStrategyError):
            return None

    def place(self, op: OpOverload) -> str:
        """See `Rule.place`."""
        return function_place(_torch.decomposition_of(op))

    def choose(self, question: Question, chooser: Chooser) -> Choice:
        """See `Rule.choose`."""
        return declining_the_unexpected(chooser.choose, question, self)


def declining_the_unexpected(function: Callable[..., _T], *given: Any) -> _T:
    """``function(*given)``; an error in the body of a rule of ours is a reason to decline.

    Raises:
        _core.Unsupported: it met arguments that it is not written for.
        Exception: as `function` does.
    """
    try:
        return function(*given)
    except (_core.RuleError, ShardpropError):
        raise
    except _UNEXPECTED as error:
        raise unexpected(error) from error


def unexpected(error: Exception) -> _core.Unsupported:
    """Why a rule of ours declines a call whose arguments it is not written for."""
    return _core.Unsupported(f"arguments that our rule does not expect ({type(error).__name__})")
