"""The page in a browser: no error, no request, and it answers. Skipped without chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shardprop.inspection.report import page

from .sample import HOSTILE, large, small, trace_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


def opened(text: str, folder: Path, *, width: int = 1280) -> tuple[str, list[str]]:
    """The elements after the scripts ran, and what the console says."""
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--disable-sync",
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={width},2000",
        "--enable-logging=stderr",
        "--virtual-time-budget=4000",
        "--dump-dom",
        file.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def answers(trace: dict[str, Any], folder: Path, script: str, *, width: int = 1280) -> Any:
    """What `script` finds on the page, without the policy that would forbid it to run."""
    text = re.sub(r"<meta http-equiv[^>]*>", "", page(trace))
    # The timeline is drawn when its width is known, with the first frame.
    asked = (
        "<script>addEventListener('load', () => setTimeout(() => {"
        f"document.title = JSON.stringify((() => {{{script}}})());"
        "}, 500))</script></body>"
    )
    dom, console = opened(text.replace("</body>", asked), folder, width=width)
    assert console == []
    found = re.search(r"<title>(.*?)</title>", dom, re.S)
    assert found is not None
    return json.loads(html.unescape(found[1]))


@pytest.mark.parametrize("made", [small, large])
def test_it_opens_without_a_word_on_the_console(made, tmp_path) -> None:
    dom, console = opened(page(made()), tmp_path)
    assert console == []
    assert "modelled communication" in dom and "How shards move" in dom
    assert dom.count('class="frame"') > 5


def test_an_error_would_be_seen_on_the_console(tmp_path) -> None:
    text = page(small()).replace("</body>", "<script>alert(1)</script></body>")
    _, console = opened(text, tmp_path)
    assert len(console) == 1 and "Content Security Policy" in console[0]


def test_it_asks_for_nothing_even_where_it_may(tmp_path) -> None:
    script = "return performance.getEntriesByType('resource').map((entry) => entry.name);"
    assert answers(small(), tmp_path, script) == []


def test_names_are_shown_as_they_are(tmp_path) -> None:
    script = "return [document.images.length, document.body.innerText];"
    images, text = answers(small(), tmp_path, script)
    assert images == 0
    # A line separator is shown as white space.
    assert HOSTILE.rstrip("\u2028") in text


def test_the_table_searches_filters_and_sorts(tmp_path) -> None:
    script = """
      const rows = () => [...document.querySelectorAll("#decisions tbody tr")].map(
        (row) => [...row.cells].map((cell) => cell.innerText));
      const search = document.querySelector("#decisions input");
      const decider = document.querySelector("#decisions select");
      const found = { all: rows().length };
      const type = (text) => { search.value = text; search.dispatchEvent(new Event("input")); };
      type("MM layers.0 backward"); found.backward = rows().length;
      type(""); decider.value = "fallback"; decider.dispatchEvent(new Event("change"));
      found.fallback = rows().map((row) => row[2]);
      decider.value = ""; decider.dispatchEvent(new Event("change"));
      const heads = [...document.querySelectorAll("#decisions th button")];
      found.first = rows()[0][7];
      heads[1].click(); found.ops = rows().map((row) => row[1].split("\\n")[0]);
      heads[1].click(); found.turned = rows()[0][1].split("\\n")[0];
      found.sorted = document.querySelectorAll("#decisions th")[1].getAttribute("aria-sort");
      return found;
    """
    found = answers(small(), tmp_path, script)
    assert found["all"] == 8 and found["backward"] == 1
    assert found["fallback"] == ["fallback\nsizes that are expressions"]
    assert found["first"] == "50 us"
    assert found["ops"] == sorted(found["ops"]) and found["turned"] == found["ops"][-1]
    assert found["sorted"] == "descending"


def test_the_timeline_merges_what_is_thinner_than_a_pixel_and_zooms(tmp_path) -> None:
    script = """
      const svg = document.querySelector(".lanes svg"), facts = document.querySelector(".facts");
      const bars = () => svg.querySelectorAll("rect:not(.track)").length;
      const press = (key) => svg.dispatchEvent(new KeyboardEvent("keydown", { key }));
      const found = { all: bars() };
      press("Home"); found.first = facts.innerText;
      press("ArrowRight"); found.second = facts.innerText;
      for (let i = 0; i < 8; i++) press("+");
      found.zoomed = bars(); found.picked = svg.querySelectorAll(".picked").length;
      press("End"); found.last = facts.innerText;
      press("0"); found.back = bars();
      return found;
    """
    found = answers(large(), tmp_path, script)
    # 5,952 bars in two lanes of about 1,100 pixels.
    assert 300 < found["all"] < 2300 and found["back"] == found["all"]
    assert 5 < found["zoomed"] < 100 and found["picked"] == 1
    assert found["first"].startswith("all_gather over tp: 10 us")
    assert found["second"].startswith("all_gather over dp: 20 us")
    assert found["last"].startswith("all_gather over dp: 20 us")
    assert "Transformer.layers.11.feed_forward.w1" in found["last"]


def test_collectives_without_a_cost_have_no_time_axis(tmp_path) -> None:
    trace = small()
    for each in trace["redistributions"]:
        for one in each["steps"]:
            one["comm_us"] = 0.0
    text = answers(trace, tmp_path, "return document.querySelector('#timeline').innerText;")
    assert text.endswith("Every collective costs nothing under the cost model.")


def test_an_empty_trace_says_so(tmp_path) -> None:
    script = "return [...document.querySelectorAll('.empty')].map((node) => node.innerText);"
    assert answers(trace_of([], [], [], [], []), tmp_path, script) == [
        "There was none.",
        "Nothing was communicated.",
        "Nothing was redistributed.",
        "None was asked for.",
        "There was none: the core decided everything.",
    ]


def test_plans_come_in_portions(tmp_path) -> None:
    script = """
      const plans = () => document.querySelectorAll(".plan:not([hidden])").length;
      const more = document.querySelector("#moves > .more");
      const found = [plans(), more.textContent];
      more.click(); found.push(plans());
      while (!more.hidden) more.click();
      return [...found, plans()];
    """
    assert answers(large(), tmp_path, script) == [8, "Show 8 more of 88", 16, 96]


@pytest.mark.parametrize("width", [500, 1280])
def test_no_part_is_wider_than_the_window(tmp_path, width) -> None:
    script = "return [document.documentElement.scrollWidth, window.innerWidth];"
    for trace in (small(), large()):
        needed, there = answers(trace, tmp_path, script, width=width)
        assert needed <= there


@pytest.mark.parametrize("rows", [0, 1])
def test_corrections_have_a_section_where_there_are_any(tmp_path, rows: int) -> None:
    row = {"correction": HOSTILE, "op": "aten.mm.default", "place": 0, "count": 2, "operands": []}
    script = """
      return [...document.querySelectorAll("nav a[href='#corrections'], #corrections tbody tr")]
        .map((found) => found.innerText);
    """
    found = answers(small() | {"corrections": [row] * rows}, tmp_path, script)
    assert len(found) == 2 * rows
    assert all(HOSTILE.rstrip("\u2028") in text for text in found[1:])
