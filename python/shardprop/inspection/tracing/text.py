"""The report of a trace for a terminal."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...redistribution.hook import plan_text
from ...support.console import counted
from ...support.stats import DecidedBy
from .model import Place
from .rows import ModuleRow, MoveRow

if TYPE_CHECKING:
    from .report import Trace

__all__ = ["report_text"]

_MODULE_ROWS = 25
_NARROWEST = 12
_REASONS = 10


def report_text(trace: Trace, width: int, dearest: int) -> str:
    """Summary, modules and ops, the dearest redistributions, what was left to torch."""
    parts = [[*_summary(trace)]]
    parts.append([*_modules(trace.by_module(), width)])
    parts.append([*_dearest(trace.dearest(dearest))])
    parts.append([*_left(trace)])
    return "\n\n".join("\n".join(_wrapped(line, width) for line in part) for part in parts if part)


def _wrapped(line: str, width: int) -> str:
    """A line that is too long goes on below, a little further in."""
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    lines = textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)


def _summary(trace: Trace) -> Iterator[str]:
    deciders = trace.deciders()
    moves = trace.moves()
    implicit = sum(row.count for row in moves if not row.explicit)
    explicit = sum(row.count for row in moves if row.explicit)
    collectives = sum(row.collectives * row.count for row in moves)
    sent = sum(row.total_wire_bytes for row in moves)
    us = sum(row.total_us for row in moves)
    unpriced = sum(row.count for row in moves if row.unpriced)
    yield f"shardprop trace: {trace.wall_seconds:.3f} s, {_ms(trace.seconds)} in propagation"
    yield (
        f"  decisions        {len(trace.decisions)}: {deciders['core']} by the core, "
        f"{deciders['torch']} by torch (no rule), {deciders['fallback']} fallbacks"
    )
    errors = sum(decision.error is not None for decision in trace.decisions)
    if errors:
        yield f"  errors           {errors} of them ended in an error"
    yield f"  torch's cache    {trace.hits} hits, {trace.misses} misses"
    yield (
        f"  redistributions  {implicit} implicit, {explicit} explicit: "
        f"{counted(collectives, 'collective')}, "
        f"{_bytes(sent)} sent by a rank, {us:.1f} us modelled"
    )
    if unpriced:
        yield f"  not priced       {unpriced} redistributions whose plan cannot be shown"
    if trace.dropped:
        yield f"  not held         {trace.dropped} events past the limit"


def _modules(rows: Sequence[ModuleRow], width: int) -> Iterator[str]:
    if not rows:
        return
    heads = ("module", "op", "decisions", "ms", "moves", "collectives", "sent", "us")
    # Of what moves, equals in the program's order; of what does not, the slowest to decide first.
    ordered = sorted(rows, key=lambda row: (-row.us, 0.0 if row.us else -row.decision_seconds))
    cells = [
        (_module(row.module, row.backward), _op(row.op), *_numbers(row))
        for row in ordered[:_MODULE_ROWS]
    ]
    rest = ordered[_MODULE_ROWS:]
    if rest:
        cells.append((f"({len(rest)} more)", "", *_numbers(_sum(rest))))
    yield "By module and op, the dearest first (<- backward)"
    yield from _table(heads, cells, width)


def _numbers(row: ModuleRow) -> tuple[str, ...]:
    return (
        str(row.decisions or "-"),
        f"{1e3 * row.decision_seconds:.2f}" if row.decisions else "-",
        str(row.redistributions or "-"),
        str(row.collectives or "-"),
        _bytes(row.wire_bytes) if row.wire_bytes else "-",
        f"{row.us:.1f}" if row.redistributions else "-",
    )


def _sum(rows: Sequence[ModuleRow]) -> ModuleRow:
    return ModuleRow(
        module="",
        op="",
        backward=False,
        decisions=sum(row.decisions for row in rows),
        decision_seconds=sum(row.decision_seconds for row in rows),
        redistributions=sum(row.redistributions for row in rows),
        collectives=sum(row.collectives for row in rows),
        wire_bytes=sum(row.wire_bytes for row in rows),
        us=sum(row.us for row in rows),
    )


def _dearest(rows: Sequence[MoveRow]) -> Iterator[str]:
    if not rows:
        return
    yield "Dearest implicit redistributions"
    for place, row in enumerate(rows, 1):
        operand = f", operand {row.operand}" if row.operand else ""
        price = f"{row.us:.1f} us" if row.plan else "no price"
        times = f"{row.count} x " if row.count > 1 else ""
        sent = f", {_bytes(row.wire_bytes)} sent" if row.plan else ""
        yield f"{place:4}. {times}{price}{sent}  {_op(row.op or '')}{operand}"
        yield f"      {_way(row)}"
        yield f"      {_where(row.place, row.modules)}"


def _way(row: MoveRow) -> str:
    """What moves, and by which collectives."""
    meta = row.src.tensor_meta
    tensor = "" if meta is None else f"{_shape(meta.shape)} {str(meta.dtype)[6:]}  "
    if row.plan is None:
        ends = "->".join("".join(map(str, spec.placements)) for spec in (row.src, row.dst))
        return f"{tensor}{ends}  ({row.planned.note})"
    names = row.src.mesh.mesh_dim_names or tuple(map(str, range(row.src.mesh.ndim)))
    steps = row.plan.steps
    over = ", ".join(f"{s.kind} over {'+'.join(names[m] for m in s.mesh_dims)}" for s in steps)
    return f"{tensor}{plan_text(steps)}  ({over})"


def _left(trace: Trace) -> Iterator[str]:
    for head, decider in (
        ("torch, for lack of a rule", DecidedBy.TORCH),
        ("torch, fallbacks", DecidedBy.FALLBACK),
    ):
        reasons = trace.reasons(decider)
        if not reasons:
            continue
        yield f"Left to {head}"
        for reason, count in [*reasons.items()][:_REASONS]:
            ops = {
                d.op for d in trace.decisions if (d.decider, d.reason or "") == (decider, reason)
            }
            yield f"  {count:5}  {reason}: {', '.join(sorted(ops))}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Columns as wide as they need, numbers to the right; the first gives way to `width`."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    others = sum(widths[1:]) + 2 * len(widths)
    widths[0] = min(widths[0], max(width - others, _NARROWEST))
    for row in (heads, *rows):
        first, second, *numbers = row
        texts = [_middle_cut(first, widths[0]).ljust(widths[0]), second.ljust(widths[1])]
        texts += [number.rjust(size) for number, size in zip(numbers, widths[2:], strict=True)]
        yield ("  " + "  ".join(texts)).rstrip()


def _middle_cut(text: str, width: int) -> str:
    """The end of a module's path says the most, then its beginning."""
    if len(text) <= width:
        return text
    head = (width - 2) // 3
    return f"{text[:head]}..{text[len(text) - (width - 2 - head) :]}"


def _op(op: str) -> str:
    return op.removeprefix("aten.").removesuffix(".default")


def _module(module: str, backward: bool) -> str:
    return f"{module or '(none)'}{' <-' if backward else ''}"


def _where(place: Place, modules: Sequence[str]) -> str:
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


def _bytes(count: int) -> str:
    """Bytes in the largest unit that leaves a number over 1."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
