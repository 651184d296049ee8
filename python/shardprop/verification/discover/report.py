"""A discovery as text: the line to paste, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from ..report import listed
from .results import Difference, Discovery, LeftOut

__all__ = ["lines"]

# Rows that are listed of each kind; JSON has all of them.
_MOST_ROWS = 5
_MORE = "#   and {} more (--json lists them)"


def lines(found: Discovery) -> Iterator[str]:
    """The text for one op."""
    if found.rule is None:
        yield f"# {found.op}: no rule found: {found.error}"
    else:
        yield found.registration
    ranks = " and ".join(map(str, found.ranks))
    if found.calls:
        made = (
            "all made up from the schema: for the op's own, --samples FILE"
            if found.made_up
            else f"{max(found.calls - found.given, 0)} made from those given"
        )
        yield f"# {found.calls} calls ({made}) on {ranks} ranks:"
        yield f"# {found.held} of {found.rows} rows hold; {found.seconds:.1f} s"
    for factor in found.factors:
        example = f", as {factor.example}" if factor.example else ""
        yield f"#   {factor.name}: cut in {factor.calls} of the {factor.tried} calls{example}"
    for reason, count in found.skipped.items():
        yield f"# left out, {count} calls: {reason}"
    for call in found.unfit[:_MOST_ROWS]:
        yield f"# the rule does not fit {call}"
    for name, value in found.never_varied.items():
        yield f"# not covered: {name} was {value} in all calls"
    for row, call in found.fails_empty.items():
        yield f"# where a rank has no elements, {row} fails: {call}"
    for row, call in found.refuted.items():
        yield f"# left out, since {row} fails: {call}"
    if found.unchecked is not None:
        yield f"# not checked on several mesh dims: {found.unchecked}"
    yield from _left_out(found.left_out)
    if found.compared_with is not None:
        yield from _differences(found.differences, found.compared_with)


def _left_out(rows: list[LeftOut]) -> Iterator[str]:
    if rows:
        yield "# rows that hold on some calls, and are not in the rule:"
    yield from listed(rows, _MOST_ROWS, _left_out_text, _MORE)


def _left_out_text(one: LeftOut) -> str:
    why = f"not on {one.fails_on}" if one.fails_on else "no rule of the notation has it"
    return f"#   {one.row}: on {one.calls}, as {one.example}; {why}"


def _differences(rows: list[Difference], kind: str) -> Iterator[str]:
    if kind == "none":
        yield "# the op has no rule"
    elif not rows:
        yield f"# the op's {kind} has the same rows"
    ours = [one for one in rows if one.only_in == "discovered"]
    theirs = [one for one in rows if one.only_in == kind]
    if ours:
        yield "# only in the discovered rule:"
    yield from listed(ours, _MOST_ROWS, _difference_text, _MORE)
    if theirs:
        yield f"# only in the op's {kind}:"
    verdicts = {True: " (holds)", False: " (DOES NOT HOLD)"}
    yield from listed(
        theirs, _MOST_ROWS, lambda one: _difference_text(one) + verdicts[one.holds], _MORE
    )


def _difference_text(one: Difference) -> str:
    return f"#   {one.row}: on {one.calls} calls, as {one.example}"
