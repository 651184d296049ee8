"""Draws the pictures of docs/decisions.md and docs/pictures.md.

    python tools/doc_pictures.py [FOLDER]

They belong to the examples of the pages, which are read from them.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import torch

import shardprop

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    """Writes the six pictures."""
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else DOCS / "img")
    names: dict = {}
    exec(blocks_of("decisions.md")[0].partition("print(")[0], names)
    x, weight = names["x"], names["weight"]
    explanation = shardprop.explain(torch.mm, x, weight)
    move = next(each for each in explanation.decision.moves if each.plan)
    plan = move.plan
    assert plan is not None
    pictures = {
        "decision_layout": shardprop.plot_layout(x),
        "decision_candidates": explanation.plot(),
        "decision_plan": plan.plot(),
    }
    for name, picture in pictures.items():
        picture.save(f"{name}.svg")
    exec("\n".join(blocks_of("pictures.md")), {})  # saves its own


def blocks_of(page: str) -> list[str]:
    """The blocks of Python on a page."""
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


if __name__ == "__main__":
    main()
