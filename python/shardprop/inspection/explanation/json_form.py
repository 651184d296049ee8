"""An explanation as plain values, as schemas/explanation.schema.json describes them.

A dataclass is an object with its fields as keys; `_plain` has what is otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from enum import Enum
from typing import Any

from ..._torch import DTensorSpec, Placement
from ...model.plan_steps import Layout
from ...redistribution.hook import layout_text
from ...redistribution.plan import Plan
from .model import DecisionExplanation
from .words import spec_text

__all__ = ["SCHEMA", "explanation_json"]

SCHEMA = "shardprop/explanation/1"


def explanation_json(
    of: str, decisions: Sequence[DecisionExplanation], error: str | None
) -> dict[str, Any]:
    """The whole document."""
    return {"schema": SCHEMA, "of": of, "error": error, "decisions": _plain(decisions)}


def _plain(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case None | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else "inf"  # JSON has no infinity
        case list() | tuple():
            return [_plain(item) for item in value]
        case Placement():
            return str(value)
        case Layout():
            return {"placements": _plain(value.placements), "layout": layout_text(value)}
        case DTensorSpec():
            return {"placements": _plain(value.placements), "layout": spec_text(value)}
        case Plan():
            return {
                "policy": value.policy,
                "us": _plain(value.cost_us),
                "wire_bytes": value.wire_bytes,
                "peak_bytes": value.peak_bytes,
                "steps": _plain(value.steps),
            }
        case DecisionExplanation():
            made = _fields(value)
            shape, names = made.pop("mesh_shape"), made.pop("mesh_dim_names")
            mesh = {"shape": shape, "dim_names": names}
            return {**made, "mesh": mesh, "total_us": _plain(value.total_us)}
        case _:
            return _fields(value)


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
