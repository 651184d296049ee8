"""Each move of the oracle, worked out by hand from the table in docs/optimal.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from torch.distributed.tensor import Placement

from shardprop.cost.cost_model import COLLECTIVES, CostModel, GroupCosts, LinearPrice

from ..specs import SS, P, R, S
from .asking import AVG, MASK, MAX, asked, by_bytes, only, work
from .brute_force import (
    Total,
    cheapest,
)
from .layouts import (
    all_layouts,
)
from .moves import moves
from .state import (
    layout_of,
)


def test_gather_of_even_rows_needs_no_copy() -> None:
    problem, source = asked(by_bytes([4]), [S(0)], [R], (8, 6), 2)
    gather = only(list(moves(source, problem)), "all_gather")
    assert work(gather) == (3 * 24, 0, 0, 0)
    assert gather.peak == 24 + 96


def test_gather_of_columns_is_copied_once_and_of_uneven_ones_twice() -> None:
    problem, source = asked(by_bytes([4]), [S(1)], [R], (8, 8), 2)
    assert work(only(list(moves(source, problem)), "all_gather")) == (3 * 32, 1, 2 * 128, 128)
    problem, source = asked(by_bytes([4]), [S(1)], [R], (8, 6), 2)
    gather = only(list(moves(source, problem)), "all_gather")
    # 6 columns are sent as 4 times 2: 4 pieces of 32 bytes of which 96 bytes remain.
    assert work(gather) == (3 * 32, 2, 2 * 128 + 2 * 32, 128)
    assert gather.peak == 32 + 96 + 128


def test_all_reduce_sends_everything_twice() -> None:
    problem, source = asked(by_bytes([4]), [P], [R], (5,), 4)
    reduce = only(list(moves(source, problem)), "all_reduce")
    assert work(reduce) == (2 * 3 * 20 // 4, 1, 40, 0)
    assert reduce.peak == 40


def test_reduce_scatter_of_uneven_rows_is_padded() -> None:
    problem, source = asked(by_bytes([4]), [P], [S(0)], (5,), 4)
    scatter = only(list(moves(source, problem)), "reduce_scatter")
    # 5 rows are sent as 8.
    assert work(scatter) == (3 * 8, 1, 2 * 32, 32)
    assert scatter.peak == 20 + 8 + 32
    problem, source = asked(by_bytes([4]), [P], [S(0)], (8,), 4)
    assert work(only(list(moves(source, problem)), "reduce_scatter")) == (3 * 8, 0, 0, 0)


def test_all_to_all_of_uneven_sizes_is_padded_and_copied_once_more() -> None:
    problem, source = asked(by_bytes([4]), [S(0)], [S(1)], (8, 6), 1)
    # 2 rows of 6 columns, sent as 8 columns.
    assert work(only(list(moves(source, problem)), "all_to_all")) == (3 * 4, 3, 6 * 16, 16)
    # 7 rows are cut in 2 + 2 + 2 + 1, so the last rank has less to send.
    problem, source = asked(by_bytes([4]), [S(0)], [S(1)], (7, 4), 1)
    assert work(only(list(moves(source, problem)), "all_to_all")) == (3 * 2, 3, 6 * 8, 8)
    problem, source = asked(by_bytes([4]), [S(0)], [S(1)], (8, 4), 1)
    assert work(only(list(moves(source, problem)), "all_to_all")) == (3 * 2, 2, 4 * 8, 8)


def test_all_to_all_made_of_a_gather_sends_all_of_it_to_everyone() -> None:
    model = by_bytes([4], all_to_all_gathers=True)
    problem, source = asked(model, [S(0)], [S(1)], (8, 4), 1)
    assert work(only(list(moves(source, problem)), "all_to_all")) == (3 * 8, 2, 4 * 8, 4 * 8)


def test_chunk_reads_and_writes_what_it_keeps() -> None:
    problem, source = asked(by_bytes([4]), [R], [S(0)], (5,), 4)
    chunk = only(list(moves(source, problem)), "chunk")
    assert work(chunk) == (0, 1, 2 * 8, 0)
    assert chunk.peak == 28


def test_only_the_last_cut_of_a_dim_is_undone() -> None:
    problem, source = asked(by_bytes([2, 2]), [S(0), S(0)], [R, R], (8,))
    kinds = {(move.kind, move.mesh_dims) for move in moves(source, problem)}
    assert kinds == {("all_gather", (1,))}


def test_partials_are_introduced_only_where_the_target_has_them_and_stay() -> None:
    problem, source = asked(by_bytes([2, 2], [(0, 1)]), [R, R], [P, R], (8,))
    partition = only(list(moves(source, problem)), "partition")
    assert (partition.mesh_dims, work(partition)) == ((0,), (0, 1, 64, 0))
    assert {move.kind for move in moves(partition.after, problem)} == {"chunk"}
    # The same partial, brought along, may be reduced.
    brought = {move.kind for move in moves(partition.after.layout(), problem)}
    assert brought == {"chunk", "all_reduce", "reduce_scatter"}


def test_introducing_an_extremum_touches_nothing() -> None:
    problem, source = asked(by_bytes([2]), [R], [MAX], (8,))
    partition = only(list(moves(source, problem)), "partition")
    assert work(partition) == (0, 0, 0, 0)
    assert partition.peak == 32


def test_partials_that_do_not_mix_are_introduced_one_after_the_other() -> None:
    problem, source = asked(by_bytes([2, 2]), [MAX, R], [R, P], (8,))
    assert not any(move.kind == "partition" for move in moves(source, problem))
    problem, source = asked(by_bytes([2, 2]), [AVG, R], [AVG, P], (8,))
    assert any(move.kind == "partition" for move in moves(source, problem))


def test_zeros_fill_the_rest_of_a_shard_that_becomes_a_sum() -> None:
    problem, source = asked(by_bytes([4]), [S(0)], [P], (8,), 1)
    fill = only(list(moves(source, problem)), "zero_fill")
    assert work(fill) == (0, 2, 8 + 2 * 2, 0)
    assert fill.peak == 10
    problem, source = asked(by_bytes([4]), [S(0)], [MAX], (8,), 1)
    assert not any(move.kind == "zero_fill" for move in moves(source, problem))
    problem, source = asked(by_bytes([2, 2]), [S(0), S(0)], [P, P], (8,), 1)
    filled = [move.mesh_dims for move in moves(source, problem) if move.kind == "zero_fill"]
    assert filled == [(1,)]  # not one that a later cut lies in


def test_a_masked_partial_comes_first_and_alone() -> None:
    model = by_bytes([2, 2, 2], [(0, 1), (0, 1, 2)])
    problem, source = asked(model, [MASK, P, S(0)], [R, R, R], (8,))
    found = {(move.kind, move.mesh_dims) for move in moves(source, problem)}
    assert found == {("all_reduce", (0,)), ("reduce_scatter", (0,))}
    assert cheapest(problem, source) is not None


def test_strided_shards_are_gathered_alone_and_made_only_for_the_target() -> None:
    problem, source = asked(by_bytes([2]), [SS(0, 3)], [R], (7,), 1)
    # 7 is cut in 3 + 3 + 1; of these the first rank has 2, 2 and 1.
    (gather,) = moves(source, problem)
    assert (gather.kind, *work(gather)) == ("all_gather", 5, 2, 4 * 2 * 5, 10)
    problem, source = asked(by_bytes([2]), [R], [SS(0, 3)], (7,), 1)
    strided = only(list(moves(source, problem)), "chunk", to=[SS(0, 3)])
    assert work(strided) == (0, 1, 10, 0)


def test_a_merged_average_is_divided_afterwards() -> None:
    model = by_bytes([2, 2], [(0, 1)])
    problem, source = asked(model, [P, AVG], [R, R], (8,), 1)
    merged = [move for move in moves(source, problem) if move.mesh_dims == (0, 1)]
    reduce, scatter = only(merged, "all_reduce"), only(merged, "reduce_scatter")
    assert work(reduce) == (2 * 3 * 8 // 4, 2, 4 * 8, 0)
    assert work(scatter) == (3 * 2, 1, 2 * 2, 0)
    problem, source = asked(model, [P, MAX], [R, R], (8,), 1)
    assert not any(move.mesh_dims == (0, 1) for move in moves(source, problem))


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ((S(0), S(0)), {"all_gather", "all_to_all", "permute"}),
        ((P, P), {"reduce_scatter", "all_reduce"}),
    ],
    ids=["shards", "partials"],
)
def test_uneven_shards_are_not_merged(source, kinds) -> None:
    for size, expected in ((8, kinds), (6, kinds & {"all_reduce"})):
        problem, start = asked(by_bytes([2, 2], [(0, 1)]), source, [R, R], (size, size))
        assert {m.kind for m in moves(start, problem) if m.mesh_dims == (0, 1)} == expected


def test_a_strided_shard_makes_unequal_pieces_of_an_even_dim() -> None:
    # 8 in 3 + 3 + 2, of which the first rank has 2, 2 and 1: 5 in 4 pieces are uneven.
    model = by_bytes([2, 2, 2], [(1, 2)])
    problem, source = asked(model, [SS(0, 3), S(0), S(0)], [SS(0, 3), R, R], (8,))
    assert {move.mesh_dims for move in moves(source, problem)} == {(2,)}
    problem, source = asked(model, [SS(0, 3), S(0), S(0)], [SS(0, 3), R, R], (24,))
    assert {move.mesh_dims for move in moves(source, problem)} == {(2,), (1, 2)}


def test_a_permutation_keeps_the_pieces_and_those_outside() -> None:
    model = by_bytes([2, 2, 4], [(0, 1), (1, 2), (0, 1, 2)])

    def reached(group: tuple[int, ...], source: Sequence[Placement], size: int) -> set[object]:
        problem, start = asked(model, source, [R, R, R], (size, 16))
        found = [move for move in moves(start, problem) if move.kind == "permute"]
        assert all(move.wire == problem.bytes_of(start) for move in found)
        return {layout_of(move.after).placements for move in found if move.mesh_dims == group}

    assert reached((0, 1), [S(0), R, R], 16) == {(R, S(0), R)}
    assert reached((0, 1), [S(0), R, R], 5) == set()
    assert reached((1, 2), [R, S(0), R], 16) == set()  # of 2 pieces, not of 4
    assert reached((0, 1, 2), [S(0), S(0), R], 16) == {(S(0), S(0), R), (R, R, S(0))}
    assert reached((0, 1), [S(0), S(0), R], 16) == {(S(0), S(0), R)}  # the other order
    assert reached((0, 1), [P, S(0), R], 16) == set()
    # Mesh dim 2 cuts after two pieces, so the pieces before it are neither more nor less.
    assert reached((0, 1), [S(0), S(1), S(0)], 16) == {(S(1), S(0), S(0))}


def test_a_permutation_may_leave_an_uneven_dim_as_it_is() -> None:
    problem, source = asked(by_bytes([2, 2, 2], [(0, 1)]), [S(0), R, S(1)], [R, R, R], (8, 7))
    permute = only(list(moves(source, problem)), "permute")
    assert layout_of(permute.after).placements == (R, S(0), S(1))


def test_a_permutation_moves_no_cut_over_one_that_stays() -> None:
    problem, source = asked(by_bytes([2, 2, 2], [(0, 2)]), [S(0), S(0), R], [R, R, R], (8,))
    (permute,) = (move for move in moves(source, problem) if move.kind == "permute")
    assert permute.after.orders == ((2, 1),)


def test_nothing_costs_anything_on_an_empty_tensor() -> None:
    model = replace(by_bytes([2, 2], [(0, 1)]), memory_us_per_byte=1e-3)
    for layout in all_layouts(2, 2):
        problem, source = asked(model, layout, [R, R], (0, 4))
        for move in moves(source, problem):
            assert (move.wire, move.traffic, move.peak, move.comm_ps) == (0, 0, 0, 0)


def test_steps_above_the_memory_limit_do_not_exist() -> None:
    model = by_bytes([2])
    problem, source = asked(model, [S(1)], [R], (4, 4), 1)
    peak = 8 + 16 + 16
    assert cheapest(problem, source) == Total(8, 1, peak)
    assert cheapest(replace(problem, memory_limit=peak), source) == Total(8, 1, peak)
    # By way of rows, which are gathered in place: 8 + 8 + 8 bytes, then 8 + 16.
    less = cheapest(replace(problem, memory_limit=peak - 1), source)
    assert less == Total(4 + 8, 2, 24)
    assert cheapest(replace(problem, memory_limit=23), source) is None


def test_lines_are_rounded_to_picoseconds_and_a_callback_replaces_them() -> None:
    line = LinearPrice(fixed_us=1.0, us_per_byte=0.4e-6)
    costs = GroupCosts((0,), (line,) * len(COLLECTIVES))
    model = CostModel((2,), (costs,), kernel_us=2.0, memory_us_per_byte=0.0)
    problem, source = asked(model, [S(1)], [R], (1, 4), 1)
    gather = only(list(moves(source, problem)), "all_gather")
    assert (gather.comm_ps, gather.local_ps) == (1_000_001, 2_000_000)
    calls = []

    def price(*question: object) -> float:
        calls.append(question)
        return 3.5e-6

    called = replace(problem, model=replace(model, callback=price))
    assert only(list(moves(source, called)), "all_gather").comm_ps == 4
    assert ("all_gather", (0,), 2, 2) in calls
