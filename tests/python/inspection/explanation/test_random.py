"""Explanations of random decisions: they are those that shardprop takes, and advice holds."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import pytest
from torch._subclasses import FakeTensorMode

import shardprop
from shardprop.inspection.explanation import DecisionExplanation, Explanation, explain_schema
from shardprop.propagation.propagator import propagate_sharding

from ...optimal.random_decisions import random_decisions
from ...parity.case import Case
from ...parity.cases import Draw, case_at
from ...quiet import quiet
from .asking import decision_of, spec_with
from .schema import validate

COUNT = 200
OPTIMAL = {"policy": "optimal", "topology": "h100-nvlink"}


@pytest.fixture(autouse=True)
def forget_fakes():
    yield
    FakeTensorMode.cache_clear()


def _check_order(explained: DecisionExplanation, case: Case) -> None:
    costs = [candidate.us for candidate in explained.candidates]
    assert [c.place for c in explained.candidates] == list(range(len(costs))), case
    # The winner is taken before any cheaper one only if it redistributes nothing.
    assert costs[1:] == sorted(costs[1:]), case
    assert costs[0] <= min(costs) + 1e-6, case


def _check_text(explained: DecisionExplanation, case: Case) -> None:
    explanation = Explanation("case", [explained])
    validate(explanation.to_json())
    json.dumps(explanation.to_json(), allow_nan=False)
    assert str(case.op) in str(explanation)


def _check_winner(explained: DecisionExplanation, case: Case) -> None:
    winner, decision = explained.candidates[0], decision_of(case)
    # As text, for two masks are never equal.
    assert str(winner.operands) == str(decision.operands[: len(winner.operands)]), case
    assert str(winner.outputs) == str(decision.outputs), case
    assert winner.us == pytest.approx(decision.cost, rel=1e-12), case
    assert list(winner.operand_us) == pytest.approx(list(decision.operand_costs), rel=1e-12), case


def _check_advice(explained: DecisionExplanation, case: Case) -> int:
    for advice in explained.advice:
        names = [operand.name for operand in explained.operands]
        changed = spec_with(case, names.index(advice.operand), advice.placements)
        assert decision_of(changed).cost == pytest.approx(advice.us, rel=1e-12), (case, advice)
        if math.isfinite(explained.us):
            assert advice.saves_us == pytest.approx(explained.us - advice.us), (case, advice)
        assert advice.us < explained.us, (case, advice)
    return len(explained.advice)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["torch", "optimal"])
def test_the_winner_is_the_decision_and_advice_holds(policy: str) -> None:
    settings: dict[str, Any] = OPTIMAL if policy == "optimal" else {}
    reasons: Counter[str] = Counter()
    advised = 0
    with shardprop.enabled(**settings), quiet():
        for case in random_decisions(11, COUNT, max_mesh_ndim=2):
            explained = explain_schema(case.schema())
            _check_text(explained, case)
            reasons[explained.reason] += 1
            if explained.error is not None:
                with pytest.raises(shardprop.ShardpropError):
                    decision_of(case)
                continue
            assert explained.policy == policy
            _check_order(explained, case)
            _check_winner(explained, case)
            advised += _check_advice(explained, case)
    assert advised > COUNT // 5
    assert {"least cost", "redistributes nothing", "follows operands"} <= set(reasons)


@pytest.mark.slow
def test_every_decision_is_explained_as_torch_executes_it() -> None:
    """Any op, strided shards and orders included: list ops, fallbacks and refusals, too."""
    reasons: Counter[str] = Counter()
    with shardprop.enabled(), quiet():
        for index in range(COUNT):
            case = case_at(Draw(5), index)
            if case.mesh.ndim > 2:
                continue
            explained = explain_schema(case.schema())
            _check_text(explained, case)
            reasons[explained.reason] += 1
            try:
                answer = propagate_sharding(case.schema())
            except Exception:
                assert explained.error is not None, case
                continue
            assert explained.error is None, (case, explained.error)
            if not answer.needs_redistribute:
                assert explained.moves == (), case
    assert len(reasons) >= 6
    assert sum(reasons.values()) > COUNT // 2
