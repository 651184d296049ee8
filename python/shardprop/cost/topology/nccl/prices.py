"""From the tuner's estimates to the price of a collective: the least of them at every size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ...cost_model import PiecewisePrice, PricePiece
from .estimates import estimates
from .machine import Wiring

__all__ = ["piecewise_price"]

Line = tuple[float, float]  # microseconds, and microseconds for each byte


@lru_cache(maxsize=1024)
def piecewise_price(wiring: Wiring, collective: str) -> PiecewisePrice:
    """What NCCL expects a collective to take, over the bytes that a rank sends.

    Where the tuner's own formula falls at a size, since a tree is said to reach a larger part of
    its bandwidth from there, the price falls too.

    Args:
        wiring: Of the group.
        collective: all_gather, reduce_scatter or all_reduce.
    """
    found = estimates(wiring, collective)
    waiting = wiring.machine.waiting_us(wiring.nodes)
    starts = sorted({0}.union(*(estimate.steps() for estimate in found)))
    pieces: list[PricePiece] = []
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        lines = [estimate.line(start) for estimate in found]
        for message, (fixed, per_byte) in _lower_envelope(lines, start, end):
            wire = message * _wire_part(wiring, collective)
            if message == start:
                # Lines change at sizes of all-reduces alone, whose bytes the planner rounds down.
                wire = 2 * (wiring.ranks - 1) * start // wiring.ranks
            line = (fixed + waiting, per_byte / _wire_part(wiring, collective))
            if not pieces or (pieces[-1].fixed_us, pieces[-1].us_per_byte) != line:
                pieces.append(PricePiece(float(wire), *line))
    return PiecewisePrice(tuple(pieces))


def _lower_envelope(
    lines: Sequence[Line], start: float, end: float | None
) -> list[tuple[float, Line]]:
    """Which line is the lowest from where on, from `start` up to `end`."""
    at, lowest = start, min(lines, key=lambda line: (line[0] + start * line[1], line[1]))
    found = [(at, lowest)]
    while True:
        crossings = [
            ((line[0] - lowest[0]) / (lowest[1] - line[1]), line[1], line)
            for line in lines
            if line[1] < lowest[1]
        ]
        if not crossings:
            return found
        crossing, _, line = min(crossings)
        at, lowest = max(at, crossing), line
        if end is not None and at >= end:
            return found
        if at == found[-1][0]:
            found.pop()
        found.append((at, lowest))


def _wire_part(wiring: Wiring, collective: str) -> float:
    """What a rank sends for each byte of the message."""
    return (2 if collective == "all_reduce" else 1) * (wiring.ranks - 1) / wiring.ranks
