"""Draws the README's figure from a bench run: what a decision takes, torch beside shardprop.

    pytest bench/test_engine.py --benchmark-json=bench.json
    python -m bench.figure bench.json docs/img/speed.svg

The least of all rounds, on the same machine; the line under the figure says on which.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from .table import MESH_DIMS, duration, least_of, made_on, times_of

OPS = ("mm", "bmm", "add", "layer_norm")
MARKERS = ("o", "s", "^", "D")
# Two hues that differ in brightness too.
COLOURS = {"torch": "#b5540a", "shardprop": "#0b5cad"}
# In the SVG names of ids would change with every run.
matplotlib.rcParams.update(
    {
        "svg.hashsalt": "shardprop",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 10,
    }
)


def draw(results: dict, path: Path) -> None:
    """One line per op and per who decides, over the number of mesh dims."""
    times = times_of(results)
    figure, axes = plt.subplots(figsize=(7.6, 3.9), layout="constrained")
    for who, colour in COLOURS.items():
        for op, marker in zip(OPS, MARKERS, strict=True):
            least = [times[f"engine {op}"][ndim][who] for ndim in MESH_DIMS]
            axes.plot(MESH_DIMS, least, f"{marker}-", color=colour, markersize=4, linewidth=1.4)
    for op, marker in zip(OPS, MARKERS, strict=True):
        axes.plot([], [], marker, color="#777777", markersize=4, label=op)
    axes.legend(frameon=False, loc="upper left", ncols=2)
    for who, colour in COLOURS.items():
        last = [times[f"engine {op}"][MESH_DIMS[-1]][who] for op in OPS]
        text = f"{who}\n{duration(min(last))} to {duration(max(last))}"
        axes.annotate(
            text,
            (MESH_DIMS[-1], (min(last) * max(last)) ** 0.5),
            (12, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontweight="bold",
        )
    axes.set_yscale("log")
    axes.set_yticks([10, 100, 1e3, 1e4, 1e5, 1e6])
    axes.set_yticklabels(["10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s"])
    axes.minorticks_off()
    axes.set_xticks(MESH_DIMS, [f"{ndim}-D mesh" for ndim in MESH_DIMS])
    axes.set_xlim(0.8, MESH_DIMS[-1] + 1.1)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("What one decision takes", loc="left")
    figure.supxlabel(made_on(results), fontsize=7, color="#666666")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(least_of(sys.argv[1:-1]), Path(sys.argv[-1]))
