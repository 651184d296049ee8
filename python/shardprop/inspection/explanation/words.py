"""Placements, mesh dims and prices in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..._torch import DTensorSpec, Placement, Replicate, Shard
from ...redistribution.hook import layout_of, layout_text
from ..words import placement_text, without_masks

__all__ = [
    "listed",
    "place_as",
    "spec_text",
    "us_text",
]


def spec_text(spec: DTensorSpec) -> str:
    """A layout in torch's short form, with the shard order where several mesh dims cut one dim."""
    return without_masks(layout_text(layout_of(spec)))


def us_text(us: float) -> str:
    """Microseconds with their unit."""
    return "inf" if math.isinf(us) else f"{us:.1f} us"


def listed(items: Sequence[object]) -> str:
    """``a, b and c``."""
    texts = [*map(str, items)]
    return " and ".join([*([", ".join(texts[:-1])] if len(texts) > 1 else []), *texts[-1:]])


def place_as(placements: Mapping[str, Placement], name: str) -> str:
    """What to do to a tensor so that it has these placements, by names of mesh dims."""
    dims_of: dict[str, list[str]] = {}
    for mesh_dim, placement in placements.items():
        dims_of.setdefault(_action(placement), []).append(f"`{mesh_dim}`")
    parts: list[str] = []
    for action, dims in dims_of.items():
        subject = "it" if parts else f"`{name}`"
        many = "s" if len(dims) > 1 else ""
        parts.append(f"{action.format(subject)} mesh dim{many} {listed(dims)}")
    return listed(parts)


def _action(placement: Placement) -> str:
    if isinstance(placement, Replicate):
        return "replicate {} on"
    if type(placement) is Shard:
        return f"shard {{}} on dim {placement.dim} of"
    return f"make {{}} {placement_text(placement)} on"
