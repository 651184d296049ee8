"""What a discovery found, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..report import Report

__all__ = ["Difference", "Discovery", "LeftOut", "Shown"]


@dataclass(frozen=True)
class Shown:
    """A factor of the rule, and what showed it.

    Attributes:
        name: As in the rule.
        calls: Calls on which a row that cuts it held.
        tried: Calls that have it, cut or not.
        example: One of them.
    """

    name: str
    calls: int
    tried: int
    example: str


@dataclass(frozen=True)
class LeftOut:
    """A row that held on some calls and that the rule does not have.

    Attributes:
        row: The row, operands first.
        calls: Calls on which it held.
        example: One of them.
        fails_on: A call on which it does not hold; None where the notation has no words for it.
    """

    row: str
    calls: int
    example: str
    fails_on: str | None


@dataclass(frozen=True)
class Difference:
    """A row that only one of the two rules has.

    Attributes:
        row: The row, operands first.
        only_in: ``"discovered"`` or the kind of the other rule.
        calls: Calls for which it has it.
        example: One of them.
        holds: Does the row hold on all of them? If not, `example` is one where it fails.
    """

    row: str
    only_in: str
    calls: int
    example: str
    holds: bool


@dataclass
class Discovery(Report):
    """The rule that was found for an op, and the evidence for it.

    Attributes:
        rule: The rule in the notation; None if nothing was found that could be said.
        ranks: Sizes of the 1-D meshes.
        given: How many of the calls were given; the others were made from those.
        made_up: Those given were made up from the schema: nobody said what the op takes.
        rows: Rows that were tried, over all calls and meshes.
        held: How many of them held.
        factors: What showed the factors of the rule.
        left_out: Rows that held on some calls, and that the rule does not have.
        fails_empty: Rows of the rule that do not hold where a rank has no elements, with a call:
            the notation has no way to ask for one.
        refuted: Rows that hold on one mesh dim and are left out because they fail as strided shards
            or on several mesh dims, with a call.
        unchecked: Why it was not tried to the end whether rows fail so; None if it was.
        never_varied: Arguments that had one value in all calls, with the value.
        unfit: Calls that the rule does not fit: it raises there.
        compared_with: The kind of the rule that is there already; None if not compared.
        differences: What that rule and the discovered one do not share.
    """

    rule: str | None = None
    ranks: tuple[int, ...] = ()
    given: int = 0
    made_up: bool = False
    rows: int = 0
    held: int = 0
    factors: list[Shown] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    fails_empty: dict[str, str] = field(default_factory=dict)
    refuted: dict[str, str] = field(default_factory=dict)
    unchecked: str | None = None
    never_varied: dict[str, str] = field(default_factory=dict)
    unfit: list[str] = field(default_factory=list)
    compared_with: str | None = None
    differences: list[Difference] = field(default_factory=list)

    @property
    def registration(self) -> str:
        """The line of Python that registers the rule."""
        namespace, packet, overload = self.op.split(".")
        return f'shardprop.register_rule(torch.ops.{namespace}.{packet}.{overload}, "{self.rule}")'
