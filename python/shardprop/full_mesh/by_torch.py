"""Strategies of an op that torch's own code decides, asked for each combination of sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core, _torch
from ..decision import decide_by_torch
from ..errors import ShardpropError
from ..outputs import output_placements, strategy_placements, wanted_specs
from ..propagator import current_policy
from ..route import Route
from .following import combinations
from .given import Given, Layout
from .layout_table import LayoutTable
from .numbered import Numbered

__all__ = ["ask_torch"]


def ask_torch(given: Given, found: Route, sources: Sequence[Sequence[Layout]]) -> Numbered:
    """What torch decides for every combination of the sources and for replicated operands, and what
    it enumerates on the way; each strategy once.

    Raises:
        ShardpropError: it refuses all of them; the message says why of the last.
    """
    layouts = LayoutTable()
    rows: dict[tuple[int, ...], None] = {}
    outputs = 0
    why: object = None
    for combination in combinations(given, sources):
        schema = given.schema_with(combination)
        try:
            sharding = decide_by_torch(schema, found, current_policy())
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
            cells = [*made, *operands, *combination[len(operands) :]]
            rows[tuple(-1 if cell is None else layouts.id(cell) for cell in cells)] = None
    if not rows:
        if found.declined is not None:
            raise ShardpropError(
                f"{given.op}: Expected an op with a rule or rows of its decomposition, got "
                f"neither: {found.declined}."
            )
        raise ShardpropError(
            f"{given.op}: Expected an op with a rule, got one that torch decides and refuses: {why}"
        )
    table = np.array([*rows], np.int32).reshape(len(rows), -1)
    return Numbered(table, outputs, [layouts[i] for i in range(len(layouts))])
