"""Lines through times."""

from __future__ import annotations

import itertools
import random

import pytest

from shardprop.cost.calibration.fit import Fit, Point, fit_line

SIZES = [1000 * 4**power for power in range(7)]


def loss(fit: Fit) -> float:
    return sum(error**2 for error in fit.errors)


def test_points_on_a_line_give_that_line() -> None:
    fit = fit_line([Point(size, 20 + 0.01 * size) for size in SIZES])
    assert fit.fixed_us == pytest.approx(20)
    assert fit.us_per_byte == pytest.approx(0.01)
    assert fit.max_error < 1e-9


def test_what_is_known_is_taken_off() -> None:
    fit = fit_line([Point(size, 20 + 0.01 * size, known_us=5 + 0.002 * size) for size in SIZES])
    assert fit.fixed_us == pytest.approx(15)
    assert fit.us_per_byte == pytest.approx(0.008)
    assert fit.max_error < 1e-9


def test_errors_are_relative_to_the_measurement() -> None:
    fit = Fit(10.0, 1.0, (Point(10, 25.0), Point(90, 80.0), Point(40, 50.0)))
    assert fit.errors == (0.2, 0.25, 0.0)
    assert (fit.median_error, fit.max_error) == (0.2, 0.25)


@pytest.mark.parametrize(
    ("times", "fixed", "slope"),
    [
        ([100.0, 90.0, 80.0], True, False),  # faster when larger: noise, no negative slope
        ([1.0, 50.0, 5000.0], False, True),  # would start below 0
        ([100.0, 100.0, 100.0], True, False),
    ],
    ids=["falling", "from below", "flat"],
)
def test_neither_part_is_negative(times: list[float], fixed: bool, slope: bool) -> None:
    fit = fit_line([Point(size, us) for size, us in zip(SIZES, times, strict=False)])
    assert (fit.fixed_us > 0, fit.us_per_byte > 1e-12) == (fixed, slope)


def test_what_is_known_may_explain_more_than_all() -> None:
    fit = fit_line([Point(size, 10.0, known_us=20.0) for size in SIZES])
    assert (fit.fixed_us, fit.us_per_byte) == (0.0, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_no_line_nearby_is_better(seed: int) -> None:
    dice = random.Random(seed)
    points = [
        Point(size, (dice.uniform(0, 50) + 0.01 * size) * dice.uniform(0.5, 2), dice.uniform(0, 9))
        for size in SIZES
    ]
    best = fit_line(points)
    steps = (0.9, 0.999, 1.001, 1.1)
    for fixed, slope in itertools.product(steps, steps):
        other = Fit(
            best.fixed_us * fixed + (fixed - 0.9) * 0.1,
            best.us_per_byte * slope + (slope - 0.9) * 1e-5,
            tuple(points),
        )
        assert loss(best) <= loss(other) * (1 + 1e-9)


def test_the_order_of_the_points_does_not_matter() -> None:
    dice = random.Random(0)
    points = [Point(size, dice.uniform(10, 1000)) for size in SIZES]
    fit = fit_line(points)
    dice.shuffle(points)
    again = fit_line(points)
    assert (fit.fixed_us, fit.us_per_byte) == (again.fixed_us, again.us_per_byte)
