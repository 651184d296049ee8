"""Strategies of an op that torch's own code decides, asked for each combination of sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core, _torch
from ...errors import ShardpropError
from ...model.placements import Placements
from ...propagation.answer import output_placements, strategy_placements, wanted_specs
from ...propagation.decision import decide_by_torch
from ...propagation.policy import Policy
from ...propagation.route import Route
from .call_template import CallTemplate
from .following import combinations
from .numbered import Numbered, numbered

__all__ = ["ask_torch"]


def ask_torch(
    call: CallTemplate, found: Route, policy: Policy, sources: Sequence[Sequence[Placements]]
) -> Numbered:
    """What torch decides for every combination of the sources and for replicated operands, and what
    it enumerates on the way; each strategy once.

    Raises:
        ShardpropError: it refuses all of them; the message says why of the last.
    """
    rows: list[list[Placements | None]] = []
    outputs = 0
    why: object = None
    for combination in combinations(call, sources):
        schema = call.schema_with(combination)
        try:
            sharding = decide_by_torch(schema, found, policy)
        except Exception as reason:  # torch refuses with whatever its code runs into
            why = reason
            continue
        wanted = [tuple(spec.placements) for spec in wanted_specs(schema, sharding)]
        ways: list[tuple[Sequence[Any], Sequence[Any]]] = [(output_placements(sharding), wanted)]
        for strategy in _torch.full_mesh_strategies(schema) or ():
            ways.append(strategy_placements(strategy)[:2])
        for made, operands in ways:
            if rows and len(made) != outputs:
                raise _core.Unsupported("strategies of torch's that differ in their outputs")
            outputs = len(made)
            rows.append([*made, *operands, *combination[len(operands) :]])
    if not rows:
        if found.declined is not None:
            raise ShardpropError(
                f"{call.op}: Expected an op with a rule or rows of its decomposition, got "
                f"neither: {found.declined}."
            )
        raise ShardpropError(
            f"{call.op}: Expected an op with a rule, got one that torch decides and refuses: {why}"
        )
    return numbered(rows, outputs)
