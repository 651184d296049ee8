"""Strategies of the oracle, and the decisions to try searches on."""

from __future__ import annotations

from collections.abc import Sequence

from torch.distributed.tensor import Placement

from ..specs import SS, P, R, S
from .asking import AVG, MAX, by_bytes
from .models import ring_model
from .random_decisions import OPS, random_decisions
from .search_oracle import Operand, best_strategies, is_shardable
from .state import (
    left_to_right,
)

# Strategies ---------------------------------------------------------------------------------------

# mm: the output, then the operands.
_MM = [
    (R, R, R),
    (S(0), S(0), R),
    (S(1), R, S(1)),
    (P, S(1), S(0)),
]


def operand(
    placements: Sequence[Placement], sizes: Sequence[int], shape: tuple[int, ...]
) -> Operand:
    layout = left_to_right(placements)
    return Operand.of_layout(layout, sizes, shape, 4)


def test_operands_that_fit_are_left_alone() -> None:
    sizes = (4, 2)
    operands = [operand([S(0), S(1)], sizes, (8, 8)), operand([R, S(0)], sizes, (8, 8))]
    best = best_strategies(_MM, operands, ring_model(sizes))
    assert best is not None
    assert (best.cost_ps, best.collectives) == (0, 0)
    assert best.strategies == (((S(0), P), (S(0), S(1)), (R, S(0))),)


def test_the_cheaper_operand_moves() -> None:
    # The product is a sum over pieces if the small right side is cut as the large left one is.
    sizes = (4,)
    operands = [operand([S(1)], sizes, (64, 64)), operand([S(1)], sizes, (64, 8))]
    best = best_strategies(_MM, operands, by_bytes(sizes))
    assert best is not None
    # Of the 64 x 2 floats that a rank has, 512 bytes, three quarters go to other ranks.
    assert (best.cost_ps, best.collectives) == (3 * 128, 1)
    assert best.strategies == (((P,), (S(1),), (S(0),)),)


def test_ties_are_all_named_in_torchs_order() -> None:
    sizes = (2,)
    operands = [operand([R], sizes, (4, 4)), operand([R], sizes, (4, 4))]
    best = best_strategies(_MM, operands, by_bytes(sizes))
    assert best is not None
    assert [strategy[0] for strategy in best.strategies] == [(R,), (S(0),), (S(1),), (P,)]


def test_strategies_that_leave_a_rank_without_a_piece_are_not_valid() -> None:
    sizes = (4,)
    rows = [(S(0), S(0), S(0)), (R, R, R)]
    small = [operand([S(0)], sizes, (3,)), operand([S(0)], sizes, (3,))]
    strict = best_strategies(rows, small, by_bytes(sizes))
    lenient = best_strategies(rows, small, by_bytes(sizes), allow_uneven=True)
    assert strict is not None and lenient is not None
    assert strict.strategies == (((R,), (R,), (R,)),)
    assert lenient.strategies == (((S(0),), (S(0),), (S(0),)),)


def test_strided_shards_need_an_element_for_each_of_their_pieces() -> None:
    assert is_shardable((8,), (R, SS(0, 2)), (2, 4))
    assert not is_shardable((8,), (R, SS(0, 3)), (2, 4))
    assert not is_shardable((8,), (S(0), SS(0, 2)), (2, 4))
    assert not is_shardable((), (S(0), R), (1, 1))


def test_mixed_partials_are_no_strategy() -> None:
    sizes = (2, 2)
    rows = [(P, P), (MAX, MAX), (AVG, AVG)]
    best = best_strategies(rows, [operand([P, AVG], sizes, (4,))], by_bytes(sizes))
    assert best is not None and best.strategies == (((P, AVG), (P, AVG)),)
    mixed = best_strategies(rows[:2], [operand([P, MAX], sizes, (4,))], by_bytes(sizes))
    assert mixed is not None
    assert {strategy[1] for strategy in mixed.strategies} <= {(P, P), (MAX, MAX)}


def test_in_place_the_first_operand_stays() -> None:
    sizes = (2,)
    rows = [(R, R, R), (S(0), S(0), S(0))]
    operands = [operand([S(0)], sizes, (4,)), operand([R], sizes, (4,))]
    best = best_strategies(rows, operands, by_bytes(sizes), in_place=True)
    assert best is not None and best.strategies == (((S(0),), (S(0),), (S(0),)),)
    assert best_strategies(rows[:1], operands, by_bytes(sizes), in_place=True) is None


# Decisions ----------------------------------------------------------------------------------------


def test_random_decisions_are_the_same_each_time_and_of_many_ops() -> None:
    cases = list(random_decisions(3, 30, max_mesh_ndim=2))
    again = random_decisions(3, 30, max_mesh_ndim=2)
    assert [str(case) for case in cases] == [str(case) for case in again]
    assert len({case.op for case in cases}) > len(OPS) // 2
    assert all(case.mesh.ndim <= 2 for case in cases)
