"""The report of a plan as a page."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh

from shardprop import ShardpropError, graph
from shardprop.planning.models.report import PlanReport

from .models import Transformer

MeshOf = Callable[..., DeviceMesh]
_VOID = {"meta", "rect"}


class Page(HTMLParser):
    """What a page holds; raises where an element is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


@pytest.fixture
def report(mesh_of: MeshOf) -> PlanReport:
    tokens = torch.zeros(8, 16, dtype=torch.long)
    found = graph.capture(Transformer(), (tokens, tokens), mesh_of(2, 2), topology="h100-nvlink")
    return found.solve().report()


def test_the_page_has_the_figures_of_the_report(report: PlanReport) -> None:
    rows = Page(report.to_html()).rows
    of_modules = rows[1 : 1 + len(report.modules)]
    for row, (path, costs) in zip(of_modules, report.modules.items(), strict=True):
        figures = [costs.us, costs.compute_us, costs.redistribute_us, costs.volume.collectives]
        assert row[0] == (path or "(model)")
        assert row[1:5] == [f"{figure:,.0f}" for figure in figures]
    name, *totals = rows[1 + len(report.modules)]
    assert (name, totals[0]) == ("in all", f"{report.cost_us:,.0f}")
    beside = [costs for costs in report.baselines.values() if costs is not None]
    assert totals[5:] == [f"{sum(costs.values()):,.0f}" for costs in beside]
    lie = {tuple(row) for row in rows[2 + len(report.modules) :]}
    for path, costs in report.modules.items():
        assert {(path or "(model)", *row) for row in costs.by_placements()} <= lie


def test_the_page_runs_no_script_and_asks_for_nothing(report: PlanReport) -> None:
    text = report.to_html()
    page = Page(text)
    assert not page.tags & {"script", "link", "img", "iframe", "form"}
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}';" in text
    assert " style=" not in text and "http://" not in text and "https://" not in text


def test_names_stay_text(report: PlanReport) -> None:
    report.why_not["<i>one</i>"] = "a & b"
    text = report.to_html(title="<script>1</script>")
    assert "<h1>&lt;script&gt;1&lt;/script&gt;</h1>" in text
    assert "<li>&lt;i&gt;one&lt;/i&gt;: a &amp; b</li>" in text
    Page(text)


def test_the_page_is_written_to_a_file(report: PlanReport, tmp_path: Path) -> None:
    report.save_html(tmp_path / "plan.html", title="Two layers")
    assert (tmp_path / "plan.html").read_text() == report.to_html(title="Two layers")
    with pytest.raises(ShardpropError, match="Expected a file to write to"):
        report.save_html(tmp_path / "no folder" / "plan.html")
