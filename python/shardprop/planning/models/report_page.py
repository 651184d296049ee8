"""The report of a plan as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from ...support.web_page import web_page

if TYPE_CHECKING:
    from .report import ModuleCosts, PlanReport

__all__ = ["report_page"]


def report_page(report: PlanReport, title: str) -> str:
    """One HTML file that needs nothing else, without scripts.

    Args:
        report: The report.
        title: The heading, as text.
    """
    body = f"""<header>
<h1>{escape(title)}</h1>
<p id="about">{escape(report.verdict)}</p>
</header>
<main>
<section id="summary" aria-label="Summary">{"".join(_figures(report))}</section>
<section><h2>By module</h2>{_modules(report)}</section>
<section><h2>Where parameters lie</h2>{_parameters(report)}</section>
{_without_plan(report)}</main>"""
    return web_page(title, body)


def _figures(report: PlanReport) -> Iterable[str]:
    total = report.total
    yield _figure(f"{report.cost_us:,.0f} us", "a step", "ops and redistributions, one by one")
    yield _figure(f"{total.compute_us:,.0f} us", "ops", _share(total.compute_us, total.us))
    yield _figure(
        f"{total.redistribute_us:,.0f} us", "moving", _share(total.redistribute_us, total.us)
    )
    sent = f"{total.volume.wire_bytes / 1e6:,.1f} MB sent by a rank"
    yield _figure(f"{total.volume.collectives:,}", "collectives", sent)
    for name, costs in report.baselines.items():
        if costs is not None:
            us = sum(costs.values())
            longer = f"{us / report.cost_us:.2f} times as long" if report.cost_us else ""
            yield _figure(f"{us:,.0f} us", name, longer)


def _figure(value: str, name: str, note: str) -> str:
    return (
        f'<div class="figure"><b>{escape(value)}</b><span>{escape(name)}</span>'
        f"<small>{escape(note)}</small></div>"
    )


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%} of it" if whole else ""


def _modules(report: PlanReport) -> str:
    most = max((costs.us for costs in report.modules.values()), default=0.0)
    beside = [f"{name}, us" for name in report.baselines]
    heads = ["module", "us", "ops", "moving", "collectives", "MB sent", *beside]

    def cells(costs: ModuleCosts, path: str | None) -> list[str]:
        others = (report.beside(name, path) for name in report.baselines)
        return [
            f"{costs.us:,.0f}{'' if path is None else _bar(costs, most)}",
            f"{costs.compute_us:,.0f}",
            f"{costs.redistribute_us:,.0f}",
            f"{costs.volume.collectives:,}",
            f"{costs.volume.wire_bytes / 1e6:,.1f}",
            *("-" if us is None else f"{us:,.0f}" for us in others),
        ]

    rows = [(path or "(model)", cells(costs, path)) for path, costs in report.modules.items()]
    legend = (
        '<p class="legend"><span><i class="compute"></i>ops</span>'
        '<span><i class="moving"></i>redistributions</span></p>'
    )
    caption = "Microseconds on one rank, forward and backward, of the modules that ops belong to."
    table = _table(caption, heads, rows, ("in all", cells(report.total, None)))
    return legend + table


def _bar(costs: ModuleCosts, most: float) -> str:
    """Parts of the width that the longest has."""
    ops, moving = (
        1000 * us / most if most else 0.0 for us in (costs.compute_us, costs.redistribute_us)
    )
    label = f"{costs.compute_us:,.0f} us of ops, {costs.redistribute_us:,.0f} us of redistributions"
    return (
        '<svg class="share" viewBox="0 0 1000 6" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}"><rect class="compute" width="{ops:.1f}" height="6"/>'
        f'<rect class="moving" x="{ops:.1f}" width="{moving:.1f}" height="6"/></svg>'
    )


def _parameters(report: PlanReport) -> str:
    rows = [
        (path or "(model)", [escape(placements), escape(names)])
        for path, costs in report.modules.items()
        for placements, names in costs.by_placements()
    ]
    if not rows:
        return '<p class="empty">The model has no parameters.</p>'
    caption = "A placement for each mesh dim; gradients and what an optimizer keeps lie likewise."
    return _table(caption, ["module", "placements", "parameters"], rows, numbers=False)


def _table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[tuple[str, Sequence[str]]],
    foot: tuple[str, Sequence[str]] | None = None,
    *,
    numbers: bool = True,
) -> str:
    """Rows with a head each; cells are HTML."""
    kind = "number" if numbers else "wrap"

    def row(name: str, cells: Sequence[str]) -> str:
        shown = "".join(f'<td class="{kind}">{cell}</td>' for cell in cells)
        return f'<tr><th scope="row">{escape(name)}</th>{shown}</tr>'

    classes = ["plain", *([f"plain {kind}"] * (len(heads) - 1))]
    head = "".join(
        f'<th scope="col" class="{of}">{escape(name)}</th>'
        for name, of in zip(heads, classes, strict=True)
    )
    last = "" if foot is None else f"<tfoot>{row(*foot)}</tfoot>"
    return (
        f'<div class="scroll" tabindex="0"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(row(*each) for each in rows)}</tbody>{last}</table></div>"
    )


def _without_plan(report: PlanReport) -> str:
    if not report.why_not:
        return ""
    lines = "".join(
        f"<li>{escape(name)}: {escape(why)}</li>" for name, why in report.why_not.items()
    )
    return f"<section><h2>Ways to shard without a plan</h2><ul>{lines}</ul></section>\n"
