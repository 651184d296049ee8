"""The pages hang together: all are in the site's navigation and in its index, and links lead
somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..checkout import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
WRITTEN = [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md"]
# What says where things are, to who changes them.
OF_THE_TREE = [ROOT / "docs" / "design.md", ROOT / "CONTRIBUTING.md"]

_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(r"[\w./]*\w\.(?:py|cpp|h)\b|(?<=`)[\w/]+/(?=`)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub and mkdocs name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {words.strip().replace(" ", "-") for words in plain}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_CODE.sub("", page.read_text())):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_navigation_and_in_the_index() -> None:
    pages = {str(page.relative_to(DOCS)) for page in PAGES}
    in_navigation = set(re.findall(r"([\w/-]+\.md)", (ROOT / "mkdocs.yml").read_text()))
    assert in_navigation == pages
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "index.md").read_text()))
    assert linked | {"index.md"} == pages


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_fences_have_one_word(page: Path) -> None:
    """With another the site takes the block for text, and the text after it for a block."""
    fences = re.findall(r"^```(.*)$", page.read_text(), re.MULTILINE)
    assert [fence for fence in fences if not re.fullmatch(r"\w*", fence)] == []


@pytest.mark.parametrize("page", OF_THE_TREE, ids=lambda page: page.name)
def test_files_that_are_named_are_there(page: Path) -> None:
    """Paths may begin anywhere: `rules/own.py` is `python/shardprop/rules/own.py`."""
    roots = [ROOT / name for name in ("python", "csrc", "tests", "tools", "bench", "docs")]
    there = [f"/{path.relative_to(ROOT)}" for root in roots for path in root.rglob("*")]
    named = [name.rstrip("/") for name in _FILE.findall(page.read_text())]
    assert len(named) > 3
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in there)] == []
