"""Draws the pictures of docs/decisions.md with shardprop's own plots.

    python tools/doc_pictures.py [FOLDER]

They belong to the operands of the page's example, which is read from the page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import torch

import shardprop

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    """Writes the three pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "img"
    source = re.search(r"```python\n(.*?)```", (DOCS / "decisions.md").read_text(), re.DOTALL)
    if source is None:
        raise SystemExit("Expected a block of Python in docs/decisions.md, got none.")
    names: dict = {}
    exec(source[1].partition("print(")[0], names)
    x, weight = names["x"], names["weight"]
    explanation = shardprop.explain(torch.mm, x, weight)
    move = next(each for each in explanation.decision.moves if each.plan)
    pictures = {
        "decision_layout": shardprop.plot_layout(x),
        "decision_candidates": explanation.plot(),
        "decision_plan": move.plan.plot(),
    }
    for name, axes in pictures.items():
        axes.figure.savefig(folder / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
