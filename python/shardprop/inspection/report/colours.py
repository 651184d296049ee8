"""Colours of ranks and of kinds of steps, for colour-blind readers and for print.

The hues are those that M. Okabe and K. Ito chose to be told apart with any kind of colour vision
(https://jfly.uni-koeln.de/color/, 2008). A colour is never the only sign of anything: blocks carry
their ranks, steps their names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["INK", "NEUTRAL", "OPERANDS", "STEP_COLOURS", "rank_colour", "step_colour"]

INK = "#1b1f24"
NEUTRAL = "#e3e6ea"

_HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8a8f98")

# In the order in which operands come.
OPERANDS = _HUES[:6]

STEP_COLOURS = {
    "all_gather": "#0072b2",
    "all_reduce": "#d55e00",
    "reduce_scatter": "#e69f00",
    "all_to_all": "#009e73",
    "permute": "#cc79a7",
}
_LOCAL_STEP = "#8a8f98"

# How much white is mixed in, so that dark text stays readable on every tint.
_LEAST_WHITE, _MOST_WHITE = 0.35, 0.8


def step_colour(kind: str) -> str:
    """The colour of a collective; grey for local steps."""
    return STEP_COLOURS.get(kind, _LOCAL_STEP)


def rank_colour(coordinate: Sequence[int], mesh_shape: Sequence[int], by: Sequence[int]) -> str:
    """The colour of a rank: a hue for the first mesh dim of `by`, a tint for the others.

    Args:
        coordinate: Of the rank, on each mesh dim.
        mesh_shape: How many ranks there are along each mesh dim.
        by: The mesh dims that count; with none of them every rank is grey.

    Returns:
        As ``#rrggbb``.
    """
    if not by:
        return NEUTRAL
    first, *others = by
    tints = math.prod(mesh_shape[dim] for dim in others)
    tint = 0
    for dim in others:
        tint = tint * mesh_shape[dim] + coordinate[dim]
    share = tint / (tints - 1) if tints > 1 else 0.4
    return _mixed(_hue(coordinate[first], mesh_shape[first]), "#ffffff", _white(share))


def _white(share: float) -> float:
    return _LEAST_WHITE + share * (_MOST_WHITE - _LEAST_WHITE)


def _hue(index: int, count: int) -> str:
    """One of the hues; more of them lie on the way from each to the next."""
    if count <= len(_HUES):
        return _HUES[index]
    place = index * (len(_HUES) - 1) / (count - 1)
    low = min(int(place), len(_HUES) - 2)
    return _mixed(_HUES[low], _HUES[low + 1], place - low)


def _mixed(one: str, other: str, share: float) -> str:
    def channel(at: int) -> int:
        a, b = int(one[at : at + 2], 16), int(other[at : at + 2], 16)
        return round(a + (b - a) * share)

    return "#" + "".join(f"{channel(at):02x}" for at in (1, 3, 5))
