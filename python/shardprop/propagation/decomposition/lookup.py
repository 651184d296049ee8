"""Which inputs a call's rows take as they are, on a mesh of one rank.

Inside a decomposition nothing may move, so of a whole decision only this is wanted: is there a row
with just these inputs, and what are its outputs? torch prefers a strategy that moves nothing to any
other, and of several such the last. On one mesh dim of size 1 no price and little of torch's
filters can bear on that, so it is one look into a table in place of a question to the core. What
else could bear on it is left to the core: strided shards, opaque placements, keyword operands,
filters over whole strategies, and the all-Replicate row that torch adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _torch
from ..._torch import OpOverload, Partial, Placement, Replicate, Shard, ShardingPlaceholder
from ...model.op_traits import traits_of
from ...rules.rule import RowsRule

__all__ = ["RowTable"]

_CELLS = frozenset({Replicate, Shard, Partial, ShardingPlaceholder, type(None)})
_INPUTS = frozenset({Replicate, Shard, Partial})

Inputs = tuple[Placement, ...]
Outputs = tuple[Placement | None, ...]


class RowTable:
    """The rows of a single-dim rule by their inputs.

    Args:
        op: The op.
        rule: Its rule.
        rows: The rows that the rule gave.
        outputs: How many of each row are outputs.
        shapes: Shapes of the operands, in the order of the rows.
    """

    def __init__(
        self,
        op: OpOverload,
        rule: RowsRule,
        rows: Sequence[Sequence[Any]],
        outputs: int,
        shapes: Sequence[Sequence[int]],
    ) -> None:
        self._usable = (
            all(type(cell) in _CELLS for row in rows for cell in row) and rule.accepts is None
        )
        self._shapes = shapes
        self._in_place = traits_of(op).in_place
        self._allow_uneven = rule.allow_uneven_sharding
        # Placeholders become shards only where an operand has one.
        self._plain: dict[Inputs, Outputs] = {}
        self._sharded: dict[Inputs, Outputs] = {}
        for row in rows if self._usable else ():
            filled = [Shard(c.dim) if type(c) is ShardingPlaceholder else c for c in row]
            given, made = tuple(filled[outputs:]), tuple(filled[:outputs])
            if not self._is_valid(given, made):
                continue
            self._sharded[given] = made
            if not any(type(cell) is ShardingPlaceholder for cell in row):
                self._plain[given] = made

    def _is_valid(self, inputs: Inputs, outputs: Outputs) -> bool:
        """torch's filters, as far as they concern a strategy that moves nothing."""
        if self._in_place and outputs and outputs[0] is not None and outputs[0] != inputs[0]:
            return False
        return self._allow_uneven or not any(
            isinstance(p, Shard) and shape[p.dim] < 1
            for p, shape in zip(inputs, self._shapes, strict=True)
        )

    def knows(self, inputs: Inputs) -> bool:
        """Does the table answer for these inputs?"""
        kinds = {type(p) for p in inputs}
        return (
            self._usable
            and kinds <= _INPUTS
            and kinds != {Replicate}
            and not _torch.forces_graph_plan()
        )

    def outputs(self, inputs: Inputs) -> Outputs | None:
        """The outputs for inputs that the table knows; None if one has to move."""
        sharded = any(type(p) is Shard for p in inputs)
        return (self._sharded if sharded else self._plain).get(inputs)
