"""Every decision without corrections equals torch's, and corrections change what they say: a seeded
run over all rule families, on two processes."""

from __future__ import annotations

import os

import pytest

from shardprop.corrections.by_op import CORRECTIONS
from shardprop.corrections.correction import Correction

from .cases import Draw
from .corrected import is_due
from .op_choice import family_of
from .registry import single_dim_entries
from .runner import Report, run_many

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(parity_cases: int, parity_seed: int) -> Report:
    """What a run of the asked size found. One process per host size."""
    whole = Report()
    for chunk in run_many(Draw(parity_seed), parity_cases, procs=min(2, os.cpu_count() or 1)):
        whole.add(chunk)
    return whole


def test_every_decision_equals_torch(report: Report) -> None:
    shown = "\n\n".join(report.differences[:5])
    assert report.total.different == 0, f"{report.total.different} differences, such as\n{shown}"


def test_every_rule_family_was_drawn(report: Report, parity_cases: int) -> None:
    if parity_cases < 5_000:
        pytest.skip("too few cases to expect every family")
    drawn = {value for aspect, value in report.tallies if aspect == "family"}
    assert {family_of(entry.op) for entry in single_dim_entries()} - drawn == set()


def test_most_decisions_are_made_by_the_core(report: Report) -> None:
    # The rest are ops without a single-dim rule, which stay torch's.
    assert report.total.by_core > 0.85 * report.total.cases, (report.delegated, report.fallbacks)


def test_cases_are_not_trivial(report: Report) -> None:
    assert report.total.errors < 0.15 * report.total.cases
    assert report.total.redistributed > 0.4 * report.total.cases


@pytest.mark.parametrize("correction", CORRECTIONS, ids=lambda each: each.name)
def test_a_correction_changes_decisions(report: Report, correction: Correction) -> None:
    if not is_due(correction, report.ops):
        pytest.skip("too few cases of its ops to expect it")
    assert report.corrected[correction.name] > 0, f"delete it: torch {correction.fault}"
