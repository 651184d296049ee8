"""An explanation as plain values, as schemas/explanation.schema.json describes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._torch import DTensorSpec, Placement
from ...model.plan_steps import Layout, Step
from ...redistribution.hook import layout_text
from ...redistribution.plan import Plan
from .model import (
    Advice,
    Candidate,
    DecisionExplanation,
    OperandFacts,
    OperandMove,
    Rejection,
    Row,
)
from .words import spec_text

__all__ = ["SCHEMA", "decision_json", "explanation_json"]

SCHEMA = "shardprop/explanation/1"


def explanation_json(
    of: str, decisions: Sequence[DecisionExplanation], error: str | None
) -> dict[str, Any]:
    """The whole document."""
    return {
        "schema": SCHEMA,
        "of": of,
        "error": error,
        "decisions": [*map(decision_json, decisions)],
    }


def decision_json(decision: DecisionExplanation) -> dict[str, Any]:
    """One decision."""
    return {
        "op": decision.op,
        "policy": decision.policy,
        "mesh": {"shape": [*decision.mesh_shape], "dim_names": [*decision.mesh_dim_names]},
        "operands": [*map(_operand, decision.operands)],
        "outputs": [*decision.outputs],
        "who": decision.who.value,
        "refused_by_torch": decision.refused_by_torch,
        "rule": {
            "kind": decision.rule.kind.value,
            "origin": decision.rule.origin.value,
            "where": decision.rule.where,
        },
        "rows": [*map(_row, decision.rows)],
        "candidates": [*map(_candidate, decision.candidates)],
        "valid": decision.valid,
        "considered": decision.considered,
        "rejections": [*map(_rejection, decision.rejections)],
        "reason": decision.reason,
        "why": decision.why,
        "notes": [*decision.notes],
        "moves": [*map(_move, decision.moves)],
        "advice": [*map(_advice, decision.advice)],
        "error": decision.error,
        "elements": [*map(decision_json, decision.elements)],
        "alike": decision.alike,
        "total_us": _number(decision.total_us),
    }


def _number(us: float) -> float | str:
    """JSON has no infinity."""
    return float(us) if math.isfinite(us) else "inf"


def _cell(placement: Placement | None) -> str | None:
    return None if placement is None else str(placement)


def _placements(placements: Sequence[Placement]) -> list[str]:
    return [*map(str, placements)]


def _operand(operand: OperandFacts) -> dict[str, Any]:
    return {
        "name": operand.name,
        "shape": [*operand.shape],
        "dtype": operand.dtype,
        "placements": _placements(operand.placements),
        "layout": operand.layout,
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "number": row.number,
        "source": row.source,
        "outputs": [*map(_cell, row.outputs)],
        "operands": _placements(row.operands),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "place": candidate.place,
        "rows": None if candidate.rows is None else [*candidate.rows],
        "outputs": [None if out is None else _placements(out) for out in candidate.outputs],
        "operands": [*map(_placements, candidate.operands)],
        "operand_us": [*map(_number, candidate.operand_us)],
        "us": _number(candidate.us),
    }


def _rejection(rejection: Rejection) -> dict[str, Any]:
    return {
        "row": rejection.row,
        "mesh_dim": rejection.mesh_dim,
        "filter": rejection.filter,
        "operand": rejection.operand,
        "dropped": rejection.dropped,
        "text": rejection.text,
    }


def _move(move: OperandMove) -> dict[str, Any]:
    return {
        "operand": move.operand,
        "name": move.name,
        "src": _spec(move.src),
        "dst": _spec(move.dst),
        "us": _number(move.us),
        "plan": None if move.plan is None else _plan(move.plan),
    }


def _spec(spec: DTensorSpec) -> dict[str, Any]:
    return {"placements": _placements(spec.placements), "layout": spec_text(spec)}


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "policy": plan.policy,
        "us": _number(plan.cost_us),
        "wire_bytes": plan.wire_bytes,
        "peak_bytes": plan.peak_bytes,
        "steps": [*map(_step, plan.steps)],
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "mesh_dims": [*step.mesh_dims],
        "before": _layout(step.before),
        "after": _layout(step.after),
        "comm_us": _number(step.comm_us),
        "local_us": _number(step.local_us),
        "wire_bytes": step.wire_bytes,
        "peak_bytes": step.peak_bytes,
    }


def _layout(layout: Layout) -> dict[str, Any]:
    return {"placements": _placements(layout.placements), "layout": layout_text(layout)}


def _advice(advice: Advice) -> dict[str, Any]:
    return {
        "operand": advice.operand,
        "placements": _placements(advice.placements),
        "text": advice.text,
        "us": _number(advice.us),
        "saves_us": _number(advice.saves_us),
    }
