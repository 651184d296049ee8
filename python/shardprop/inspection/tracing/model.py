"""What a trace holds: decisions, redistributions, and their places in the program."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from ..._torch import DTensorSpec, OpSchema, OutputSharding
from ...propagation.policy import Policy
from ...redistribution.plan import Plan
from ...support.stats import DecidedBy
from .plans import Planned, Plans

__all__ = ["NOWHERE", "Place", "TracedDecision", "TracedRedistribution", "planner_of", "policy_of"]


@dataclass(frozen=True)
class Place:
    """Where in the program something happened.

    Attributes:
        module: The module whose forward it was part of, by its path from the outermost one:
            ``"Transformer.layers.0.attn"``. Empty outside any.
        file: The file of the innermost frame outside torch, shardprop and Python's own library; of
            the forward where a backward's forward is known. Empty where there is no such frame.
        line: The line in it; 0 without a file.
        function: The function in it, by its qualified name where Python has it.
        backward: It was part of a backward pass; `module` is then that of the forward.
    """

    module: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    backward: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "-"


NOWHERE = Place()


@dataclass(frozen=True)
class TracedDecision:
    """A decision that no cache answered.

    Attributes:
        op: The overload, ``"aten.mm.default"``.
        schema: The question.
        output: The answer; None where `error` says why there is none.
        error: What propagation raised, in words.
        decider: ``"core"``; ``"torch"`` for an op without a rule, which torch decides, or that
            torch refused; ``"fallback"`` for one that has a rule, and that the core declined.
        reason: Why not the core.
        correction: The fault of torch's that it puts right, by its name (docs/corrections.md); None
            where torch has none.
        seconds: How long it took.
        place: Where it was asked for.
        policy: What decided: ``"torch"`` or ``"optimal"``.
        at: Seconds since the trace began.
        thread: The thread that asked, by its identifier.
    """

    op: str
    schema: OpSchema
    output: OutputSharding | None
    error: str | None
    decider: DecidedBy
    reason: str | None
    correction: str | None
    seconds: float
    place: Place
    policy: str
    at: float
    thread: int
    _decided_by: Policy = field(repr=False)


@dataclass(frozen=True)
class TracedRedistribution:
    """A redistribution that was carried out.

    Attributes:
        op: The op that moved its operand, ``"aten.mm.default"``. None: the program asked for it
            (``redistribute()``, or the gradient of one).
        operand: The name of the operand, ``"mat2"``; None without an op, and for one of the few
            that torch hands to a function which moves operands by itself (convolution, argmax).
        src: What the tensor was.
        dst: What it became.
        explicit: The program asked for it.
        at: Seconds since the trace began.
        seconds: How long the host took; the device may go on longer.
        correction: The fault of torch's that its plan puts right, by its name
            (docs/corrections.md); None where torch's plan has none.
        place: Where it was.
        policy: Who planned: ``"torch"`` or ``"optimal"``.
        thread: The thread that ran it, by its identifier.
    """

    op: str | None
    operand: str | None
    src: DTensorSpec
    dst: DTensorSpec
    explicit: bool
    at: float
    seconds: float
    correction: str | None
    place: Place
    policy: str
    thread: int
    _planner: Policy = field(repr=False)
    _plans: Plans = field(repr=False)

    @functools.cached_property
    def planned(self) -> Planned:
        """The plan, or why none can be shown; made when it is first asked for."""
        return self._plans.of(self._planner, self.src, self.dst)

    @property
    def plan(self) -> Plan | None:
        """The plan under the policy that was on; None where it cannot be shown (`planned`)."""
        return self.planned.plan

    @property
    def us(self) -> float:
        """Microseconds under the cost model: the policy's own, or torch's; 0 without a plan."""
        return self.plan.cost_us if self.plan else 0.0

    @property
    def wire_bytes(self) -> int:
        """Bytes that a rank sends; 0 without a plan."""
        return self.plan.wire_bytes if self.plan else 0

    @property
    def collectives(self) -> int:
        """How many steps communicate; 0 without a plan."""
        return self.plan.collectives if self.plan else 0


def policy_of(decision: TracedDecision) -> Policy:
    """The policy that decided, with its settings."""
    return decision._decided_by


def planner_of(redistribution: TracedRedistribution) -> Policy:
    """The policy that planned, with its settings."""
    return redistribution._planner
