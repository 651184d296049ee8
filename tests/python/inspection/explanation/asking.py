"""The public answers that explanations are compared with."""

from __future__ import annotations

from dataclasses import replace

from torch.distributed.tensor import Placement

import shardprop

from ...parity.case import Case
from ...parity.layouts import Layout, Operand
from ...parity.sketch import map_leaves


def decision_of(case: Case) -> shardprop.Decision:
    """What `propagate` says."""
    return shardprop.propagate(case.op, *case.args_schema, **case.kwargs_schema)


def spec_with(case: Case, operand: int, placements: tuple[Placement, ...]) -> Case:
    """The case with one operand placed otherwise."""
    seen = -1

    def change(each: Operand) -> Operand:
        nonlocal seen
        seen += 1
        if seen != operand:
            return each
        return replace(each, layout=Layout(each.layout.mesh, placements))

    args = tuple(map_leaves(Operand, change, arg) for arg in case.args)
    kwargs = {name: map_leaves(Operand, change, value) for name, value in case.kwargs.items()}
    return replace(case, args=args, kwargs=kwargs)
