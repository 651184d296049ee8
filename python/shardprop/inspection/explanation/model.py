"""Why one op was placed as it was, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..._torch import DTensorSpec, Placement
from ...model.placements import Placements
from ...propagation.route import Who
from ...redistribution.plan import Plan
from ...rules.rule import RuleFacts

__all__ = [
    "Advice",
    "Candidate",
    "DecisionExplanation",
    "OperandFacts",
    "OperandMove",
    "Placements",
    "Rejection",
    "Row",
    "RuleFacts",
    "in_places",
]

# Microseconds that two figures, as they are printed, differ by at least.
_SEEN_US = 0.1


@dataclass(frozen=True)
class OperandFacts:
    """A tensor that the op was given.

    Attributes:
        name: As the op's schema calls it: ``"mat2"``, ``"tensors[3]"``.
        shape: Of the whole tensor.
        dtype: As torch prints it, without ``torch.``.
        placements: One for each mesh dim.
        layout: The same in torch's short form, with the shard order where it matters.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    placements: Placements
    layout: str


@dataclass(frozen=True)
class Row:
    """What the rule allows on one mesh dim, placeholders filled in.

    Attributes:
        number: Candidates and rejections refer to it.
        source: The row of the rule that it came from, counted from 0; None for the all-Replicate
            row that torch always offers.
        outputs: A placement per output, None for an absent one.
        operands: A placement per operand.
    """

    number: int
    source: int | None
    outputs: tuple[Placement | None, ...]
    operands: tuple[Placement, ...]


@dataclass(frozen=True)
class Candidate:
    """One way to run the op on the whole mesh.

    Attributes:
        place: 0 for the winner; the others by cost, of equal cost in torch's order.
        rows: Per mesh dim the number of its row; None where there are no rows.
        outputs: Placements per output, None for an absent one.
        operands: Placements per operand.
        operand_us: Microseconds to bring each operand there.
        us: Their sum, as the policy sums them.
    """

    place: int
    rows: tuple[int, ...] | None
    outputs: tuple[Placements | None, ...]
    operands: tuple[Placements, ...]
    operand_us: tuple[float, ...]
    us: float


def in_places(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The candidates in the order in which they come, each told its place."""
    return tuple(replace(each, place=place) for place, each in enumerate(candidates))


@dataclass(frozen=True)
class OperandMove:
    """What the winner does to one operand.

    Attributes:
        operand: Which one.
        name: Its name.
        src: Where it is.
        dst: Where it is wanted.
        us: Microseconds that the policy priced it at; ``inf`` where it sees no way.
        plan: The steps; None where no plan can be shown.
    """

    operand: int
    name: str
    src: DTensorSpec
    dst: DTensorSpec
    us: float
    plan: Plan | None

    @property
    def planned_us(self) -> float:
        """Microseconds of the plan by the same model; `us` where there is none."""
        return self.us if self.plan is None else self.plan.cost_us

    @property
    def is_priced_too_low(self) -> bool:
        """Does the plan cost more than the price, by as much as can be seen? torch takes moves of
        strided shards for free."""
        return self.planned_us > self.us + _SEEN_US


@dataclass(frozen=True)
class Rejection:
    """A row that a filter dropped on one mesh dim.

    Attributes:
        row: Its number.
        mesh_dim: Where.
        filter: ``"mixed_partial"``, ``"in_place"``, ``"fixed"``, ``"constraint"`` or
            ``"too_small"``.
        operand: The operand or output that it failed at; None if none in particular.
        dropped: Combinations of rows that fell by it.
        text: The same in words.
    """

    row: int
    mesh_dim: int
    filter: str
    operand: str | None
    dropped: int
    text: str


@dataclass(frozen=True)
class Advice:
    """Other placements of one operand that would have avoided communication.

    The price is what the core answers for them, all other operands being where they are. What it
    takes to have the operand there is not counted.

    Attributes:
        operand: Its name.
        placements: What it would have.
        text: The same in words.
        us: Microseconds that the op would move its operands in.
        saves_us: How much less that is than now.
    """

    operand: str
    placements: Placements
    text: str
    us: float
    saves_us: float


@dataclass(frozen=True)
class DecisionExplanation:
    """Why one op was placed as it was.

    Attributes:
        op: The overload, as torch prints it.
        policy: The policy that decides: ``"torch"`` or ``"optimal"``.
        mesh_shape: Sizes of the mesh dims.
        mesh_dim_names: Their names; ``"0"``, ``"1"``, ... where they have none.
        operands: The tensors that it was given: arguments, then keyword arguments.
        outputs: Names of its outputs.
        who: Who decides it.
        rule: What decides it, and where its code is.
        refused_by_torch: torch alone refuses the op on these operands.
        rows: What the rule allows on one mesh dim, after expansion; empty where it has no rows.
        candidates: The cheapest ways to run it, the winner first; at most `limit` of them.
        valid: Combinations of rows that passed torch's filters.
        considered: Combinations of rows that there are.
        rejections: Rows that were dropped.
        reason: Why the winner won: ``"only strategy"``, ``"negative cost"``, ``"redistributes
            nothing"``, ``"costs nothing"``, ``"least cost"``, ``"first of equal cost"``, ``"follows
            operands"``, ``"nothing is decided"``, ``"torch decides"`` or ``"no strategy"``.
        why: The same in a sentence.
        notes: What else there is to say.
        moves: What the winner moves.
        advice: What would have avoided it, the most likely to be in your hands first.
        error: Why there is no decision; None where there is one.
        elements: Of a list op with several kinds of elements: one explanation for each kind, of
            which this one is the most expensive.
        alike: Of a list op: elements of this kind.
    """

    op: str
    policy: str
    mesh_shape: tuple[int, ...]
    mesh_dim_names: tuple[str, ...]
    operands: tuple[OperandFacts, ...]
    outputs: tuple[str, ...]
    who: Who
    rule: RuleFacts
    refused_by_torch: bool = False
    rows: tuple[Row, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    valid: int = 0
    considered: int = 0
    rejections: tuple[Rejection, ...] = ()
    reason: str = ""
    why: str = ""
    notes: tuple[str, ...] = ()
    moves: tuple[OperandMove, ...] = ()
    advice: tuple[Advice, ...] = ()
    error: str | None = None
    elements: tuple[DecisionExplanation, ...] = ()
    alike: int = 1

    @property
    def us(self) -> float:
        """Microseconds in which the winner moves the operands, as the policy prices them; 0 without
        a decision. Of a list op: those of one element."""
        return self.candidates[0].us if self.candidates else 0.0

    @property
    def total_us(self) -> float:
        """The same; of a list op: of all its elements."""
        return sum(each.us * each.alike for each in self.elements or (self,))

    @property
    def planned_us(self) -> float:
        """The same by the plans that run: more where a price is too low."""
        return sum(
            move.planned_us * each.alike for each in self.elements or (self,) for move in each.moves
        )

    @property
    def is_priced_too_low(self) -> bool:
        """Does a move cost more than its price?"""
        return any(
            move.is_priced_too_low for each in self.elements or (self,) for move in each.moves
        )
