"""A line through measured times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Fit", "Point", "fit_line"]


@dataclass(frozen=True)
class Point:
    """One measurement.

    Attributes:
        bytes: What the slope counts: wire bytes, or memory traffic.
        us: Microseconds.
        known_us: Of these, what is explained already: local kernels, for a collective.
    """

    bytes: int
    us: float
    known_us: float = 0.0


@dataclass(frozen=True)
class Fit:
    """``us = known_us + fixed_us + us_per_byte * bytes``, and how far that is off.

    Attributes:
        fixed_us: At least 0.
        us_per_byte: At least 0.
        points: What it was fitted to.
    """

    fixed_us: float
    us_per_byte: float
    points: tuple[Point, ...]

    def predicted_us(self, point: Point) -> float:
        """What the line says where a point was measured."""
        return point.known_us + self.fixed_us + self.us_per_byte * point.bytes

    @property
    def errors(self) -> tuple[float, ...]:
        """``|predicted - measured| / measured`` of each point."""
        return tuple(abs(self.predicted_us(point) - point.us) / point.us for point in self.points)

    @property
    def median_error(self) -> float:
        """Relative."""
        return statistics.median(self.errors)

    @property
    def max_error(self) -> float:
        """Relative."""
        return max(self.errors)


def fit_line(points: Sequence[Point]) -> Fit:
    """The line with the least sum of squared relative errors among those that are not negative.

    Weights are 1 / us ** 2: else the largest message alone would decide. The sums are exact
    (`math.fsum`), so that ranks with other processors find the same line.
    """
    weights = [1 / point.us**2 for point in points]
    rest = [point.us - point.known_us for point in points]

    def moment(left: Sequence[float], right: Sequence[float]) -> float:
        return math.fsum(w * a * b for w, a, b in zip(weights, left, right, strict=True))

    ones, sizes = [1.0] * len(points), [float(point.bytes) for point in points]
    w, x, xx = moment(ones, ones), moment(ones, sizes), moment(sizes, sizes)
    y, xy = moment(ones, rest), moment(sizes, rest)
    # The best with one of the two at its bound of 0, then the best with neither.
    candidates = [(max(0.0, y / w), 0.0), (0.0, max(0.0, xy / xx) if xx else 0.0)]
    determinant = w * xx - x * x
    if determinant > 0:
        fixed, slope = (xx * y - x * xy) / determinant, (w * xy - x * y) / determinant
        if fixed >= 0 and slope >= 0:
            candidates.append((fixed, slope))

    def loss(line: tuple[float, float]) -> float:
        off = [line[0] + line[1] * size - us for size, us in zip(sizes, rest, strict=True)]
        return moment(off, off)

    fixed, slope = min(candidates, key=loss)
    return Fit(fixed, slope, tuple(points))
