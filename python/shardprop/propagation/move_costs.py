"""What it costs to move operands to where they are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._torch import DTensorSpec, make_spec
from ..model.question import Choice
from ..rules.rule import Chooser

__all__ = ["choice_costs", "is_placed_alike", "move_costs"]


def move_costs(chooser: Chooser, pairs: Iterable[tuple[DTensorSpec, DTensorSpec]]) -> list[float]:
    """Microseconds of the redistributions from one spec to the other of each pair."""
    with chooser.one_decision():
        return [0.0 if is_placed_alike(src, dst) else chooser.cost(src, dst) for src, dst in pairs]


def choice_costs(
    chooser: Chooser, choice: Choice, operands: Sequence[DTensorSpec], chosen: Iterable[int]
) -> list[float]:
    """Microseconds to move those of the operands whose indices are `chosen` to where a choice wants
    them."""

    def wanted(at: int) -> DTensorSpec:
        spec = operands[at]
        return make_spec(spec.mesh, choice.operands[at], spec.tensor_meta, choice.strided_is_order)

    return move_costs(chooser, ((operands[at], wanted(at)) for at in chosen))


def is_placed_alike(src: DTensorSpec, dst: DTensorSpec) -> bool:
    """Have both the same placements, in the same shard order? (What strided shards stand for makes
    no difference to what is in the same ones.)"""
    return src.placements == dst.placements and (
        src.shard_order is None or src.shard_order == dst.shard_order
    )
