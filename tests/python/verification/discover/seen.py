"""Observations with rows written by hand, for tests that need no simulated ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardprop._torch import OpOverload
from shardprop.verification.discover.evidence import Evidence
from shardprop.verification.discover.observation import Observation
from shardprop.verification.discover.rows import Row, essential
from shardprop.verification.discover.slots import signature_of


def row(text: str) -> Row:
    """``"S(0), R -> S(0)"`` as cells; an absent tensor is an empty cell."""
    left, right = text.split("->")
    return tuple(cell.strip() for side in (left, right) for cell in side.split(","))


def seen(
    op: OpOverload,
    shapes: Sequence[Sequence[int] | None],
    rows: Sequence[str],
    ranks: int = 2,
    call: int = 0,
    **arguments: Any,
) -> Observation:
    """An observation in which exactly these rows hold; shapes of operands, then of outputs."""
    operands = len(signature_of(op).operands)
    slots = tuple(() if shape is None else (tuple(shape),) for shape in shapes)
    held = essential(map(row, rows), operands)
    return Observation(call, f"call {call}", ranks, operands, slots, arguments, held)


def evidence(op: OpOverload, *observations: Observation) -> Evidence:
    """What was seen of an op."""
    return Evidence(op, observations=list(observations))
