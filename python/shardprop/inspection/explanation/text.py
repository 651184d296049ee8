"""An explanation as plain text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ...rules.rule import Origin, RuleKind
from ...support.console import table, table_lines, wrapped
from ..words import mesh_text, over_text, placement_text, placements_text
from .model import Candidate, DecisionExplanation, OperandMove, Rejection, Row
from .words import spec_text, us_text

__all__ = ["decision_text", "summary_text"]

# Of many: rows that no candidate uses, filters that dropped rows, kinds of elements.
_MOST_ROWS = 12
_MOST_REJECTIONS = 8
_MOST_CANDIDATES = 5
_MOST_ELEMENTS = 8
_MOST_DECISIONS = 16
_MOST_OF_A_LINE = 98

_TORCHS = (RuleKind.FULL_MESH_STRATEGY, RuleKind.PROPAGATION_RULE)


def decision_text(decision: DecisionExplanation, width: int) -> str:
    """All there is to say of a decision."""
    sections = (
        _head(decision),
        _rule(decision, width),
        _rows(decision),
        _candidates(decision),
        _rejections(decision, width),
        _why(decision, width),
        _moves(decision, width),
        _advice(decision, width),
        _elements(decision),
    )
    return "\n".join("\n".join(lines) for lines in map(list, sections) if lines)


def summary_text(decisions: Sequence[DecisionExplanation], every: bool) -> str:
    """A line for each decision of a program; of many, only for those that move something or fail,
    unless `every` is asked for."""
    every = every or len(decisions) <= _MOST_DECISIONS
    rows = [
        (
            str(number),
            decision.op,
            "error" if decision.error else us_text(decision.total_us),
            ", ".join(map(_short, decision.moves)),
        )
        for number, decision in enumerate(decisions)
        if every or decision.moves or decision.error or decision.total_us
    ]
    lines = table_lines(table(("#", "op", "us", "moves"), rows, right=(0, 2)))
    if len(rows) < len(decisions):
        lines.append(f"  {len(decisions) - len(rows)} more move nothing")
    return "\n".join(lines)


def _short(move: OperandMove) -> str:
    text = f"{move.name} {spec_text(move.src)} -> {spec_text(move.dst)}"
    return f"{text} (its plan: {us_text(move.planned_us)})" if move.is_priced_too_low else text


def _head(decision: DecisionExplanation) -> Iterator[str]:
    mesh = mesh_text(decision.mesh_dim_names, decision.mesh_shape)
    yield f"{decision.op}  (policy {decision.policy}, {mesh})"
    shown = decision.operands[: 2 * _MOST_ELEMENTS]
    rows = [(x.name, f"{x.dtype}[{', '.join(map(str, x.shape))}]", x.layout) for x in shown]
    if rows:
        yield from table_lines(table((), rows))
    if len(decision.operands) > len(shown):
        yield f"  and {len(decision.operands) - len(shown)} more operands"


def _rule(decision: DecisionExplanation, width: int) -> Iterator[str]:
    rule = decision.rule
    whose = {"torch": "torch's", "shardprop": "shardprop's", "registered": "registered"}
    # The words of a kind of torch's own say so.
    alone = rule.kind is RuleKind.NONE or (rule.kind in _TORCHS and rule.origin is Origin.TORCH)
    kind = rule.kind.value if alone else f"{rule.kind.value}, {whose[rule.origin]}"
    yield f"rule: {kind}"
    yield from wrapped(rule.where, width)


def _rows(decision: DecisionExplanation) -> Iterator[str]:
    rows = decision.rows
    if not rows:
        return
    winners = decision.candidates[:_MOST_CANDIDATES]
    used = {number for candidate in winners for number in candidate.rows or ()}
    others = "more that no candidate below uses" if used else "more"
    if used:
        shown = [row for row in rows if row.number in used]
    else:
        dropped = {rejection.row for rejection in decision.rejections}
        shown = [row for row in rows if row.number in dropped][:_MOST_ROWS]
    yield f"rows for one mesh dim: {_sides(decision)}"
    cells = [(str(row.number), _source(row), _cells(row)) for row in shown]
    yield from table_lines(table(("row", "of rule", ""), cells, right=(0, 1)))
    if len(shown) < len(rows):
        yield f"  {len(rows) - len(shown)} {others}"


def _sides(decision: DecisionExplanation) -> str:
    names = [operand.name for operand in decision.operands]
    return f"{', '.join(names)} -> {', '.join(decision.outputs) or 'nothing'}"


def _source(row: Row) -> str:
    return "added" if row.source is None else str(row.source)


def _cells(row: Row) -> str:
    outputs = ", ".join(map(placement_text, row.outputs)) or "nothing"
    return f"{_few([*map(placement_text, row.operands)])} -> {outputs}"


def _candidates(decision: DecisionExplanation) -> Iterator[str]:
    if not decision.candidates:
        return
    shown = decision.candidates[:_MOST_CANDIDATES]
    of = (
        f"{len(shown)} of {decision.valid} valid strategies "
        f"({decision.considered} combinations of rows)"
        if decision.rows
        else f"{len(shown)} of {decision.valid}"
    )
    yield f"candidates: {of}"
    by_rows = shown[0].rows is not None
    head = ("", *(("rows",) if by_rows else ()), "us", "of each", _sides(decision))
    right = (0, 2) if by_rows else (0, 1)
    yield from table_lines(table(head, [_candidate(c, by_rows) for c in shown], right))


def _candidate(candidate: Candidate, by_rows: bool) -> tuple[str, ...]:
    outputs = ", ".join(map(placements_text, candidate.outputs)) or "nothing"
    operands = _few([placements_text(p) for p in candidate.operands])
    rows = (", ".join(map(str, candidate.rows or ())),) if by_rows else ()
    each = _few([f"{us:.1f}" for us in candidate.operand_us], " + ")
    return (str(candidate.place), *rows, f"{candidate.us:.1f}", each, f"{operands} -> {outputs}")


def _few(texts: Sequence[str], between: str = ", ") -> str:
    if len(texts) <= 6:
        return between.join(texts)
    return between.join([*texts[:5], f"({len(texts) - 5} more)"])


def _rejections(decision: DecisionExplanation, width: int) -> Iterator[str]:
    """Of rows that fell at the same operand on the same mesh dim one text, and their numbers."""
    alike: dict[object, list[Rejection]] = {}
    for each in decision.rejections:
        alike.setdefault((each.mesh_dim, each.filter, each.operand), []).append(each)
    if alike:
        yield "dropped by torch's filters:"
    for group in [*alike.values()][:_MOST_REJECTIONS]:
        others = _few([str(each.row) for each in group[1:]])
        more = f"; row{'s' * (len(group) > 2)} {others} likewise" if others else ""
        yield from wrapped(group[0].text + more, width, "    ", "  ")
    if len(alike) > _MOST_REJECTIONS:
        yield f"  and more on other operands and mesh dims: {len(decision.rejections)} in all"


def _why(decision: DecisionExplanation, width: int) -> Iterator[str]:
    if decision.error is None:
        yield f"why: {decision.reason}"
        yield from wrapped(decision.why, width)
    else:
        yield "no decision:"
        for line in decision.error.splitlines():
            yield from wrapped(line, width)
    for note in decision.notes:
        yield from wrapped(note, width)


def _moves(decision: DecisionExplanation, width: int) -> Iterator[str]:
    if decision.moves:
        yield "moves:"
    for move in decision.moves:
        yield f"  {move.name}: {spec_text(move.src)} -> {spec_text(move.dst)}, {_price(move)}"
        yield from _steps(move, decision.mesh_dim_names)


def _price(move: OperandMove) -> str:
    return "no finite price" if us_text(move.us) == "inf" else f"priced at {us_text(move.us)}"


def _steps(move: OperandMove, dims: Sequence[str]) -> Iterator[str]:
    if move.plan is None:
        yield "    the core has no plan to show"
        return
    for step in move.plan.steps:
        on = over_text(dims, step.mesh_dims)
        sent = f", {step.wire_bytes:,} bytes sent" if step.wire_bytes else ""
        yield f"    {step.kind} on {on}: {us_text(step.us)}{sent}"
    if move.plan.hint:
        yield f"    {move.plan.hint.text(move.src.mesh)}"


def _advice(decision: DecisionExplanation, width: int) -> Iterator[str]:
    if decision.advice:
        yield "what would have avoided it:"
    for advice in decision.advice:
        yield from wrapped(advice.text, width, "    ", "  ")


def _elements(decision: DecisionExplanation) -> Iterator[str]:
    if not decision.elements:
        return
    yield f"kinds of elements: {len(decision.elements)}, of which the most expensive is shown"
    shown = decision.elements[:_MOST_ELEMENTS]
    for each in shown:
        layouts = ", ".join(f"{operand.name} {operand.layout}" for operand in each.operands)
        cost = "no decision" if each.error else us_text(each.us)
        yield "  " + textwrap.shorten(f"{cost}: {layouts}", _MOST_OF_A_LINE)
    if len(shown) < len(decision.elements):
        yield f"  {len(decision.elements) - len(shown)} more"
