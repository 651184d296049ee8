"""A picture of predicted and measured times; needs matplotlib (``pip install matplotlib``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .gloo_report import of_kinds, rank_correlation

try:
    import matplotlib
except ImportError:
    raise SystemExit("Expected matplotlib for --plot, got none: pip install matplotlib") from None

matplotlib.use("Agg")
from matplotlib import pyplot

MARKERS = ("torch", "x"), ("optimal", "o")


def plot(found: dict[str, Any], path: Path) -> None:
    """One panel for each mesh, with and without flattened meshes; a point is a plan."""
    kinds = of_kinds(found)
    figure, panels = pyplot.subplots(2, len(kinds) // 2, figsize=(9, 8), sharex=True, sharey=True)
    for (name, _, measured), panel in zip(kinds, panels.T.flat, strict=True):
        points = {
            policy: [(one["predicted_us"][i], one["measured_us"][i]) for one in measured]
            for i, (policy, _) in enumerate(MARKERS)
        }
        for policy, marker in MARKERS:
            xs, ys = zip(*points[policy], strict=True)
            panel.scatter([x / 1e3 for x in xs], [y / 1e3 for y in ys], 14, marker=marker)
        both = [point for of_policy in points.values() for point in of_policy]
        correlation = rank_correlation(*map(list, zip(*both, strict=True)))
        panel.set_title(f"{name}: rank correlation {correlation:.2f}", fontsize=10)
        panel.axline((1, 1), (10, 10), color="grey", linewidth=0.8)
        panel.set(xscale="log", yscale="log")
        panel.legend([policy for policy, _ in MARKERS], fontsize=8)
    figure.supxlabel("predicted, ms")
    figure.supylabel("measured, ms")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
