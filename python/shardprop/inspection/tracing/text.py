"""The report of a trace for a terminal."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...redistribution.hook import plan_text
from ...support.console import counted, table, table_lines, wrapped
from ...support.stats import DecidedBy
from ..words import bytes_text, dim_names, dtype_text, over_text, placements_text
from .model import Place
from .rows import CorrectionRow, ModuleRow, MoveRow, totals

if TYPE_CHECKING:
    from .report import Trace

__all__ = ["op_text", "place_text", "report_text"]

_MODULE_ROWS = 25
_NARROWEST = 12
_REASONS = 10
_CORRECTIONS = 10


def report_text(trace: Trace, width: int, most_expensive: int) -> str:
    """Summary, modules and ops, the most expensive redistributions, what was put right, what was
    left to torch."""
    parts = [[*_summary(trace)]]
    parts.append([*_modules(trace.by_module(), width)])
    parts.append([*_most_expensive(trace.most_expensive(most_expensive))])
    parts.append([*_corrected(trace.corrections)])
    parts.append([*_left(trace)])
    return "\n\n".join("\n".join(_fitted(line, width) for line in part) for part in parts if part)


def _fitted(line: str, width: int) -> str:
    """A line that is too long goes on below, a little further in."""
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return "\n".join(wrapped(line, width, indent, first=""))


def _summary(trace: Trace) -> Iterator[str]:
    deciders = trace.deciders()
    moved = totals(trace.moves())
    yield f"shardprop trace: {trace.wall_seconds:.3f} s, {_ms(trace.seconds)} in propagation"
    decided = (
        f"{len(trace.decisions)}: {deciders['core']} by the core, "
        f"{deciders['torch']} by torch (no rule), {deciders['fallback']} fallbacks"
    )
    redistributed = (
        f"{moved.implicit} implicit, {moved.explicit} explicit: "
        f"{counted(moved.collectives, 'collective')}, "
        f"{bytes_text(moved.wire_bytes)} sent by a rank, {moved.us:.1f} us modelled"
    )
    rows = [("decisions", decided)]
    if trace.errors:
        rows.append(("errors", f"{trace.errors} of them ended in an error"))
    rows.append(("torch's cache", f"{trace.hits} hits, {trace.misses} misses"))
    rows.append(("redistributions", redistributed))
    if moved.unpriced:
        rows.append(("not priced", f"{moved.unpriced} redistributions whose plan cannot be shown"))
    if trace.dropped:
        rows.append(("not held", f"{trace.dropped} events past the limit"))
    yield from table_lines(table((), rows))


def _modules(rows: Sequence[ModuleRow], width: int) -> Iterator[str]:
    if not rows:
        return
    heads = ("module", "op", "decisions", "ms", "moves", "collectives", "sent", "us")
    # Of what moves, equals in the program's order; of what does not, the slowest to decide first.
    ordered = sorted(rows, key=lambda row: (-row.us, 0.0 if row.us else -row.decision_seconds))
    cells = [
        (_module(row.module, row.backward), op_text(row.op), *_numbers(row))
        for row in ordered[:_MODULE_ROWS]
    ]
    rest = ordered[_MODULE_ROWS:]
    if rest:
        cells.append((f"({len(rest)} more)", "", *_numbers(functools.reduce(operator.add, rest))))
    yield "By module and op, the most expensive first (<- backward)"
    # The modules give way to the width: of the others each is as wide as it needs.
    others = [max(map(len, column)) for column in zip(heads, *cells, strict=True)][1:]
    room = max(width - sum(others) - 2 * len(heads), _NARROWEST)
    cells = [(_middle_cut(module, room), *rest) for module, *rest in cells]
    yield from table_lines(table(heads, cells, right=range(2, len(heads))))


def _numbers(row: ModuleRow) -> tuple[str, ...]:
    return (
        str(row.decisions or "-"),
        f"{1e3 * row.decision_seconds:.2f}" if row.decisions else "-",
        str(row.redistributions or "-"),
        str(row.collectives or "-"),
        bytes_text(row.wire_bytes) if row.wire_bytes else "-",
        f"{row.us:.1f}" if row.redistributions else "-",
    )


def _most_expensive(rows: Sequence[MoveRow]) -> Iterator[str]:
    if not rows:
        return
    yield "Most expensive implicit redistributions"
    for place, row in enumerate(rows, 1):
        operand = f", operand {row.operand}" if row.operand else ""
        price = f"{row.us:.1f} us" if row.plan else "no price"
        times = f"{row.count} x " if row.count > 1 else ""
        sent = f", {bytes_text(row.wire_bytes)} sent" if row.plan else ""
        yield f"{place:4}. {times}{price}{sent}  {op_text(row.op or '')}{operand}"
        yield f"      {_way(row)}"
        if row.plan and row.plan.hint:
            yield f"      {row.plan.hint.text(row.src.mesh)}"
        yield f"      {place_text(row.place, row.modules)}"


def _way(row: MoveRow) -> str:
    """What moves, and by which collectives."""
    meta = row.src.tensor_meta
    tensor = "" if meta is None else f"{_shape(meta.shape)} {dtype_text(meta.dtype)}  "
    if row.plan is None:
        ends = "->".join("".join(map(str, spec.placements)) for spec in (row.src, row.dst))
        return f"{tensor}{ends}  ({row.planned.note})"
    names = dim_names(row.src.mesh)
    steps = row.plan.steps
    over = ", ".join(f"{step.kind} over {over_text(names, step.mesh_dims)}" for step in steps)
    return f"{tensor}{plan_text(steps)}  ({over})"


def _corrected(rows: Sequence[CorrectionRow]) -> Iterator[str]:
    if not rows:
        return
    yield "Put right, where torch alone may give wrong values (docs/corrections.md)"
    for row in rows[:_CORRECTIONS]:
        times = f"{row.count} x " if row.count > 1 else ""
        placed = ", ".join(
            f"{name} {placements_text(spec.placements)}".strip()
            for name, spec in row.operands.items()
        )
        yield f"  {times}{op_text(row.op)}({placed}): {row.correction}"
        yield f"      {place_text(row.place, (row.place.module,))}"
    if len(rows) > _CORRECTIONS:
        yield f"  and {counted(len(rows) - _CORRECTIONS, 'row')} more: Trace.corrections"


def _left(trace: Trace) -> Iterator[str]:
    for head, decider in (
        ("torch, for lack of a rule", DecidedBy.TORCH),
        ("torch, fallbacks", DecidedBy.FALLBACK),
    ):
        reasons = trace.reasons(decider)
        if not reasons:
            continue
        yield f"Left to {head}"
        rows = []
        for reason, count in [*reasons.items()][:_REASONS]:
            ops = {
                d.op for d in trace.decisions if (d.decider, d.reason or "") == (decider, reason)
            }
            rows.append((str(count), f"{reason}: {', '.join(sorted(ops))}"))
        yield from table_lines(table(("", ""), rows, right=(0,)))


def _middle_cut(text: str, width: int) -> str:
    """The end of a module's path says the most, then its beginning."""
    if len(text) <= width:
        return text
    head = (width - 2) // 3
    return f"{text[:head]}..{text[len(text) - (width - 2 - head) :]}"


def op_text(op: str) -> str:
    """The overload without what most have."""
    return op.removeprefix("aten.").removesuffix(".default")


def _module(module: str, backward: bool) -> str:
    return f"{module or '(none)'}{' <-' if backward else ''}"


def place_text(place: Place, modules: Sequence[str]) -> str:
    """The line, its function, and the modules that run it."""
    backward = ", backward" if place.backward else ""
    named = [module for module in modules if module]
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    module = f" in {named[0]}{more}" if named else ""
    if not place.file:
        return f"at no line of the program{module}{backward}"
    file = os.path.relpath(place.file) if os.path.isabs(place.file) else place.file
    shorter = min(file, place.file, key=len)
    return f"{shorter}:{place.line} {place.function}{module}{backward}"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def _shape(shape: Sequence[object]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
