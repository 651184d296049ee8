"""What is told of the measured redistributions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .gloo_cases import GAIN

BEGIN = "<!-- gloo redistributions: made by bench/gloo_redistribute.py -->"
END = "<!-- /gloo redistributions -->"


def table(found: dict[str, Any]) -> str:
    """Speed-ups by mesh, with and without flattened meshes, and how well prices foretell times."""
    lines = [
        "| mesh | pairs with a modelled gain over 2 | measured | modelled gain: median | speed-up: "
        "p10 | median | p90 | plans measured | rank correlation |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    kinds = list(of_kinds(found))
    lines += [_row(name, pairs, measured) for name, pairs, measured in kinds]
    everything = [one for _, _, measured in kinds for one in measured]
    lines.append(_row("all", sum(pairs for _, pairs, _ in kinds), everything))
    return "\n".join([*lines, "", f"{found['made_on']}, {found['repetitions']} repetitions."])


def of_kinds(found: dict[str, Any]) -> list[tuple[str, int, list[dict[str, Any]]]]:
    """Per mesh and kind: its name, how many pairs have a gain over 2, what was measured."""
    kinds = []
    for mesh in found["meshes"]:
        for kind in ("flattened", "plain"):
            pairs = sum(n for key, n in mesh["pairs"].items() if key.startswith(kind))
            measured = [one for one in mesh["measured"] if one["kind"] == kind]
            kinds.append((f"{mesh['mesh']}, {kind}", pairs, measured))
    return kinds


def _row(name: str, pairs: int, measured: Sequence[dict[str, Any]]) -> str:
    dear = [one for one in measured if one["gain"] > GAIN]
    predicted = [us for one in measured for us in one["predicted_us"]]
    times = [us for one in measured for us in one["measured_us"]]
    speed_ups = [one["measured_us"][0] / one["measured_us"][1] for one in dear]
    cells = [name, str(pairs), str(len(dear))]
    if dear:
        gain = float(np.median([one["gain"] for one in dear]))
        p10, median, p90 = np.percentile(speed_ups, [10, 50, 90])
        cells += [f"{gain:.1f}x", f"{p10:.2f}x", f"**{median:.2f}x**", f"{p90:.2f}x"]
    else:
        cells += [""] * 4
    return (
        f"| {' | '.join([*cells, str(len(times)), f'{rank_correlation(predicted, times):.2f}'])} |"
    )


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's; equal values share the mean of their ranks."""
    return float(np.corrcoef(_ranks(left), _ranks(right))[0, 1])


def _ranks(values: Sequence[float]) -> Any:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def write(path: Path, text: str) -> None:
    """Replace what is between the markers of a file."""
    before, _, rest = path.read_text().partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
