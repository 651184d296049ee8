"""The page as a file: that it is whole, safe and small. No browser needed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import shardprop
from shardprop import ShardpropError
from shardprop.inspection.report import page

from .sample import HOSTILE, decision, large, layout, place, small, trace_of

SCHEMA = Path(shardprop.__file__).parent / "schemas" / "trace.schema.json"
VOID = {"meta", "link", "img", "br", "hr", "input", "wbr"}


class Parsed(HTMLParser):
    """Tags with their attributes, text by tag, and whether tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.append((self.open[-1], data))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def inside(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


def data_of(text: str) -> dict[str, Any]:
    found = [text for text in Parsed(text).inside("script") if text.startswith("{")]
    assert len(found) == 1
    loaded = json.loads(found[0])
    assert isinstance(loaded, dict)
    return loaded


def test_the_page_is_whole() -> None:
    parsed = Parsed(page(small()))
    assert parsed.open == []
    assert [tag for tag, _ in parsed.tags][:3] == ["html", "head", "meta"]
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes in parsed.of("a")]
    assert len(links) == 5 and {f"#{name}" for name in ids} >= set(links)


def test_the_page_names_no_other_file() -> None:
    text = page(small())
    parsed = Parsed(text)
    assert [t for t, a in parsed.tags if t in ("link", "img", "iframe", "base")] == []
    assert [a for _, a in parsed.tags if "src" in a or "style" in a] == []
    assert re.findall(r"url\((?!#)", text) == [] and "@import" not in text
    # The one address is a name: that of SVG.
    assert set(re.findall(r"https?://[^\s\"']*", text)) == {"http://www.w3.org/2000/svg"}


def test_the_policy_forbids_the_network_and_other_scripts() -> None:
    parsed = Parsed(page(small()))
    (policy,) = [
        a["content"] for a in parsed.of("meta") if a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None and policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    data, script = parsed.inside("script")
    (style,) = parsed.inside("style")
    for kind, text in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "sha256" not in data


def test_names_of_the_program_are_no_markup() -> None:
    text = page(small(), title=HOSTILE)
    parsed = Parsed(text)
    assert len(parsed.of("script")) == 2 and parsed.of("img") == []
    assert parsed.inside("h1") == [HOSTILE] == parsed.inside("title")[:1]
    modules = {row["module"] for row in data_of(text)["decisions"]}
    assert f"Model.{HOSTILE}" in modules
    assert "</script><img" not in text


def test_the_script_reads_no_markup() -> None:
    """Texts become text nodes: the ways to make elements of a text are not in the script."""
    script = Parsed(page(small())).inside("script")[1]
    ways = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|fetch\(|XMLHttp"
    assert re.findall(ways, script) == []


def test_what_is_infinite_is_null() -> None:
    trace = small()
    trace["redistributions"][0]["us"] = float("inf")
    assert data_of(page(trace))["most_expensive"][0]["us"] is None


@pytest.mark.slow
def test_a_large_trace_stays_small() -> None:
    assert len(page(large()).encode()) < 2_000_000


def test_the_summary_counts() -> None:
    found = {name: (value, more) for value, name, more in data_of(page(small()))["summary"]}
    assert found["modelled communication"] == ("120 us", "8 collectives, 120 us implicit")
    assert found["redistributions"] == ("9", "8 implicit, 1 asked for")
    assert found["decisions"] == ("6", "4 by core, 1 by torch, 1 by fallback")
    assert found["without an answer"][0] == "1"
    assert found["answered by torch's cache"] == ("300", "98 % of 306")


@pytest.mark.slow
def test_the_most_expensive_are_implicit_and_together() -> None:
    rows = data_of(page(small()))["most_expensive"]
    assert [(row["op"], row["count"], row["us"]) for row in rows][:2] == [
        ("aten.bmm.default", 1, 50.0),
        ("aten.mm.default", 3, 37.5),
    ]
    assert rows[0]["kinds"] == "all_reduce over tp, all_to_all over dp"
    assert rows[1] | {"module": ""} == {
        "op": "aten.mm.default",
        "operand": "mat2",
        "text": "S(0)R → RR",
        "kinds": "all_gather over dp",
        "where": "model.py:10",
        "module": "",
        "count": 3,
        "bytes": 3 * 4096,
        "us": 37.5,
    }
    assert len(data_of(page(large()))["most_expensive"]) == 10


def test_the_timeline_has_a_lane_for_each_mesh_dim() -> None:
    timeline = data_of(page(small()))["timeline"]
    assert timeline["lanes"] == [
        "dp (mesh dp=2, tp=2)",
        "tp (mesh dp=2, tp=2)",
        "mesh dim 0 (mesh 3)",
    ]
    bars = [(timeline["kinds"][kind], lanes, us) for _, kind, lanes, us, _ in timeline["bars"]]
    # In program order; a chunk communicates nothing, what has no plan has no bar.
    assert bars == [
        ("all_gather", [0], 12.5),
        ("all_reduce", [1], 30.0),
        ("all_to_all", [0], 20.0),
        ("all_gather", [0], 12.5),
        ("all_gather", [2], 7.0),
        ("all_gather", [0], 12.5),
        ("all_gather", [0], 12.5),
        ("all_reduce", [0], 12.5),
    ]


def test_what_was_moved_is_counted_once_where_two_decided() -> None:
    rows = [
        row
        for row in data_of(page(small()))["decisions"]
        if row["op"] == "aten.mm.default" and not row["backward"]
    ]
    assert [(row["decider"], row["count"], row["moved"]) for row in rows] == [
        ("core", 2, 3),
        ("fallback", 1, 0),
    ]


def test_fallbacks_errors_and_missing_plans_are_listed_with_reasons() -> None:
    rows = {
        (row["op"], row["decider"]): row["reason"] for row in data_of(page(small()))["fallbacks"]
    }
    assert rows == {
        ("aten.mm.default", "torch (declined)"): "sizes that are expressions",
        ("aten.sort.default", "torch (no rule)"): f"no rule {HOSTILE}",
        ("aten.add_.Tensor", "nobody: an error"): "in-place: cannot change its placement",
        ("aten.embedding.default", "no plan to show"): f"no price: {HOSTILE}",
    }


def test_corrections_are_listed_with_the_operands_of_the_first() -> None:
    assert data_of(page(small()))["corrections"] == []
    trace = small() | {
        "corrections": [
            {
                "correction": f"a fault {HOSTILE}",
                "op": "aten.mm.default",
                "place": 2,
                "count": 2,
                "operands": [{"name": "self", "layout": layout("S(0)", "R")}],
            }
        ]
    }
    text = page(trace)
    assert "</script><img" not in text
    assert data_of(text)["corrections"] == [
        {
            "op": "aten.mm.default",
            "operands": "self S(0)R",
            "correction": f"a fault {HOSTILE}",
            "where": "model.py:10",
            "module": "Model.layers.0 (backward)",
            "count": 2,
        }
    ]


def test_a_trace_without_corrections_is_read() -> None:
    """One of an earlier shardprop."""
    trace = small()
    assert "corrections" not in trace
    assert data_of(page(trace))["corrections"] == []


def test_files_are_named_from_where_their_paths_differ() -> None:
    places = [place("a", 1), place("b", 2), place("c", 0)]
    places[1]["file"] = "/home/someone/lib/nn.py"
    decisions = [decision("aten.mm.default", index) for index in range(3)]
    trace = trace_of([((2,), ("tp",))], places, decisions, [], [])
    found = [row["where"] for row in data_of(page(trace))["decisions"]]
    assert found == ["project/model.py:1", "lib/nn.py:2", ""]


def test_an_empty_trace_has_a_page() -> None:
    text = page(trace_of([], [], [], [], []))
    assert "Nothing was redistributed." in text and 'class="plan"' not in text
    data = data_of(text)
    assert data["most_expensive"] == data["decisions"] == data["fallbacks"] == []
    assert data["timeline"]["bars"] == []


@pytest.mark.parametrize(
    "trace, found",
    [
        ([], "'list'"),
        ({}, "None"),
        ({"schema": "shardprop/explanation/1"}, "'shardprop/explanation/1'"),
        ({"schema": "shardprop/trace/1"}, "one with a fault: KeyError at 'places'"),
    ],
    ids=["no document", "no schema", "another schema", "a part is missing"],
)
def test_what_is_no_trace_is_refused(trace: Any, found: str) -> None:
    with pytest.raises(ShardpropError, match=f"Expected a document of the schema .* got {found}"):
        page(trace)


@pytest.mark.slow
@pytest.mark.skipif(not SCHEMA.exists(), reason="the schema is not there yet")
@pytest.mark.parametrize("made", [small, large])
def test_the_samples_are_traces(made) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(made(), json.loads(SCHEMA.read_text()))
