"""The oracle itself: worked examples by hand, torch's printed table, and laws that prices obey."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor._collective_utils import redistribute_cost
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._redistribute import use_min_cost_redistribution_plan
from torch.distributed.tensor.placement_types import _MaskPartial, _StridedShard

from shardprop.cost_model import COLLECTIVES, CostModel, GroupCosts, Line
from shardprop.plans import Layout

from ..parity.oracle import forget_history
from ..specs import SS, P, R, S, spec_of
from .brute_force import (
    Total,
    all_prices,
    cheapest,
    cheapest_plan,
    price_of_steps,
    steps_of,
)
from .layouts import (
    Question,
    all_layouts,
    random_layout,
    random_question,
    random_shape,
    random_sizes,
    spec_of_encoded_layout,
    spec_of_layout,
)
from .models import all_groups, random_model, ring_model
from .moves import Move, Problem, moves
from .random_decisions import OPS, random_decisions
from .search_oracle import Operand, best_strategies, is_shardable
from .state import (
    State,
    first_part,
    layout_of,
    left_to_right,
    local_shape,
    state_of,
    state_of_spec,
)

MAX = Partial("max")
AVG = Partial("avg")
MASK = _MaskPartial(offset_shape=torch.Size((8, 4)), offset_dim=0)  # type: ignore[no-untyped-call]
# 64 MiB of float32.
SQUARE = (4096, 4096)


def by_bytes(
    sizes: Sequence[int], groups: Sequence[tuple[int, ...]] = (), **others: object
) -> CostModel:
    """A byte on the wire takes a picosecond; local work is free."""
    alone = [(m,) for m, size in enumerate(sizes) if size > 1]
    line = Line(fixed_us=0.0, us_per_byte=1e-6)
    costs = tuple(GroupCosts(group, (line,) * len(COLLECTIVES)) for group in [*alone, *groups])
    model = CostModel(tuple(sizes), costs, kernel_us=0.0, memory_us_per_byte=0.0)
    return replace(model, **others)  # type: ignore[arg-type]


def asked(
    model: CostModel,
    source: Layout | Sequence[Placement],
    target: Layout | Sequence[Placement],
    shape: tuple[int, ...] = SQUARE,
    itemsize: int = 4,
    memory_limit: int | None = None,
) -> tuple[Problem, State]:
    """The problem and where it starts."""
    ends = [
        state_of(end if isinstance(end, Layout) else left_to_right(end), model.sizes, len(shape))
        for end in (source, target)
    ]
    return Problem(model, shape, itemsize, ends[1], memory_limit), ends[0]


def only(found: Sequence[Move], kind: str, *, to: Sequence[Placement] | None = None) -> Move:
    """The one move of its kind (and to these placements)."""
    fitting = [
        move
        for move in found
        if move.kind == kind and (to is None or layout_of(move.after).placements == tuple(to))
    ]
    assert len(fitting) == 1, found
    return fitting[0]


def work(move: Move) -> tuple[int, int, int, int]:
    return move.wire, move.kernels, move.traffic, move.staging


# Layouts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh_ndim", [1, 2, 3])
@pytest.mark.parametrize("tensor_ndim", [1, 2, 3])
@pytest.mark.parametrize("ops", [("sum",), ("sum", "max")])
def test_as_many_layouts_as_the_formula_says(mesh_ndim, tensor_ndim, ops) -> None:
    every = list(all_layouts(mesh_ndim, tensor_ndim, ops, every_order=True))
    sizes = (2,) * mesh_ndim
    expected = sum(
        math.comb(mesh_ndim, cut)
        * (1 + len(ops)) ** (mesh_ndim - cut)
        * math.prod(range(tensor_ndim, tensor_ndim + cut))
        for cut in range(mesh_ndim + 1)
    )
    assert len({state_of(layout, sizes, tensor_ndim) for layout in every}) == expected
    assert len(every) == expected
    default = list(all_layouts(mesh_ndim, tensor_ndim, ops))
    assert len(default) == (1 + len(ops) + tensor_ndim) ** mesh_ndim
    assert set(default) <= set(every)


def test_layouts_survive_the_way_through_a_spec(mesh_of) -> None:
    mesh = mesh_of(2, 2, 2)
    for layout in all_layouts(3, 2, every_order=True):
        state = state_of(layout, (2, 2, 2), 2)
        assert layout_of(state) == layout
        assert state_of_spec(spec_of_layout(mesh, (16, 16), layout)) == state


def test_a_mesh_dim_of_size_1_is_in_no_layout() -> None:
    cut = Layout((S(0), S(0)), ((0, (1, 0)),))
    assert state_of(cut, (1, 4), 1) == state_of(left_to_right([R, S(0)]), (1, 4), 1)
    assert state_of(left_to_right([P, S(0)]), (1, 4), 1) == state_of(cut, (1, 4), 1)


def test_an_order_that_leaves_out_a_shard_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Expected an order of \[0, 1\] for tensor dim 0"):
        state_of(Layout((S(0), S(0)), ((0, (1,)),)), (2, 2), 1)


def test_strided_shards_that_encode_an_order_are_that_order(mesh_of) -> None:
    strided = 0
    for layout in all_layouts(3, 2, every_order=True):
        spec = spec_of_encoded_layout(mesh_of(2, 2, 4), (32, 32), layout)
        assert state_of_spec(spec) == state_of(layout, (2, 2, 4), 2)
        strided += any(isinstance(p, _StridedShard) for p in spec.placements)
    assert strided > 20


def test_strided_shards_are_decoded_as_torch_does(mesh_of) -> None:
    rng = random.Random(9)
    values = [R, S(0), S(1), SS(0, 2), SS(0, 4), SS(1, 2), SS(1, 3)]
    decoded = kept = 0
    for _ in range(500):
        sizes = rng.choice([(2, 2, 2), (2, 4, 2), (4, 2, 3), (2, 1, 2), (3, 2, 1)])
        placements = tuple(rng.choice(values if size > 1 else values[:3]) for size in sizes)
        mesh = mesh_of(*sizes)
        order = DTensorSpec._maybe_convert_StridedShard_to_shard_order(placements, mesh)
        state = state_of_spec(spec_of(mesh, (48, 48), placements))
        if order is None:
            assert state == state_of(left_to_right(placements), sizes, 2)
            kept += 1
        else:
            plain = tuple(S(p.dim) if isinstance(p, _StridedShard) else p for p in placements)
            entries = tuple((entry.tensor_dim, entry.mesh_dims) for entry in order)
            assert state == state_of(Layout(plain, entries), sizes, 2)
            decoded += plain != placements
    assert decoded > 15 and kept > 15


def test_strided_shards_stay_where_uneven_or_of_a_view_or_without_meaning(mesh_of) -> None:
    mesh = mesh_of(2, 2)
    strided = state_of(left_to_right([SS(0, 2), S(0)]), (2, 2), 1)
    plain = state_of(Layout((S(0), S(0)), ((0, (1, 0)),)), (2, 2), 1)
    placements = [SS(0, 2), S(0)]
    assert state_of_spec(spec_of(mesh, (8,), placements)) == plain
    assert state_of_spec(spec_of(mesh, (6,), placements)) == strided
    assert state_of_spec(spec_of(mesh, (8,), placements, strided_is_order=False)) == strided
    meaningless = state_of_spec(spec_of(mesh, (8,), [S(0), SS(0, 2)]))
    assert meaningless == state_of(left_to_right([S(0), SS(0, 2)]), (2, 2), 1)


def test_the_first_part_is_what_torch_gives_to_the_first_rank() -> None:
    for size, ranks, factor in itertools.product(range(30), (2, 3, 4), (1, 2, 3, 5)):
        if factor == 1:
            theirs, _ = Shard.local_shard_size_and_offset(size, ranks, 0)
        else:
            theirs, _ = SS(0, factor).local_shard_size_and_offset(size, ranks, 0)
        assert first_part(size, ranks, factor) == theirs, (size, ranks, factor)


def test_cuts_nest_in_shard_order() -> None:
    inner_first = state_of(Layout((S(0), S(0)), ((0, (1, 0)),)), (3, 2), 1)
    # 7 is cut in 4 + 3, then 4 in 2 + 2 + 0; or in 3 + 3 + 1, then 3 in 2 + 1.
    assert local_shape(inner_first, (3, 2), (7,)) == (2,)
    # 5 is cut in 3 + 2, then 3 in 1 + 1 + 1; or in 2 + 2 + 1, then 2 in 1 + 1.
    assert local_shape(inner_first, (3, 2), (5,)) == (1,)
    # 10 in 5 + 5, then 5 in 2 + 2 + 1; or in 4 + 4 + 2, then 4 in 2 + 2.
    assert local_shape(inner_first, (3, 2), (10,)) == (2,)
    # 13 in 7 + 6, then 7 in 3 + 3 + 1.
    assert local_shape(inner_first, (3, 2), (13,)) == (3,)


# Single moves -------------------------------------------------------------------------------------


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
    line = Line(fixed_us=1.0, us_per_byte=0.4e-6)
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


# Plans --------------------------------------------------------------------------------------------

# What plans of torch's own steps reach, and what those reach that may also use flattened groups,
# permutations and a cheaper all-to-all: microseconds, for 64 MiB on 8 hosts of 8 devices.
_TABLE = [
    ((P, P), (R, R), "2022", "2022"),
    ((P, R), (R, S(0)), "753", "753"),
    ((P, R), (R, R), "1387", "1387"),
    ((P, P), (S(0), S(0)), "1036", "1035"),
    ((P, S(0)), (S(0), S(0)), "491", "440"),
    ((S(0), S(0)), (R, S(0)), "491", "440"),
    ((S(0), S(0)), (R, R), "1036", "1035"),
    ((R, S(0)), (S(0), S(0)), "111", "60"),
    ((S(0), R), (R, S(0)), "470", "414"),
    ((S(0), S(1)), (S(1), S(0)), "470", "60"),
    ((S(0), S(0)), (S(1), S(1)), "470", "101"),
    ((R, S(0)), (S(1), S(1)), "21.5", "20.5"),
]


@pytest.mark.parametrize(("source", "target", "steps", "more"), _TABLE, ids=str)
def test_plans_cost_what_torchs_table_says(source, target, steps, more) -> None:
    plain = ring_model((8, 8))
    rich = ring_model((8, 8), all_groups((8, 8)), all_to_all_us=0.0)
    for model, printed in ((plain, steps), (rich, more)):
        total = cheapest(*asked(model, source, target))
        assert total is not None
        digits = len(printed.partition(".")[2])
        assert f"{total.cost_ps / 1e6:.{digits}f}" == printed


def test_the_plan_that_the_table_names_is_found() -> None:
    plan = cheapest_plan(*asked(ring_model((8, 8)), [P, P], [R, R]))
    assert plan is not None
    assert [(move.kind, move.mesh_dims) for move in plan] == [
        ("reduce_scatter", (1,)),
        ("all_reduce", (0,)),
        ("all_gather", (1,)),
    ]


@pytest.mark.parametrize(("sizes", "tensor_ndim"), [((2, 4), 3), ((3, 3), 2), ((2, 2, 4), 2)])
def test_plans_of_torchs_own_steps_cost_what_its_graph_planner_finds(
    mesh_of, sizes, tensor_ndim
) -> None:
    rng = random.Random(8)
    model = ring_model(sizes, devices_per_host=torch.cpu.device_count())
    sources = list(all_layouts(len(sizes), tensor_ndim, every_order=True))
    # torch takes the introduction of a partial for free; the contract has its price.
    targets = [to for to in sources if not any(p.is_partial() for p in to.placements)]
    shape = (1440,) * tensor_ndim
    for _ in range(40):
        source, target = rng.choice(sources), rng.choice(targets)
        specs = [spec_of_layout(mesh_of(*sizes), shape, end) for end in (source, target)]
        forget_history()
        with use_min_cost_redistribution_plan(True):
            theirs = redistribute_cost(*specs)
        total = cheapest(*asked(model, source, target, shape))
        assert total is not None
        assert total.cost_ps / 1e6 == pytest.approx(theirs, abs=1e-5)


def test_of_equal_prices_fewer_collectives_win_then_less_memory() -> None:
    # All free: one merged gather rather than two, by the lower peak of rows.
    free = replace(by_bytes([2, 2], [(0, 1)]), callback=lambda *_: 0.0)
    assert cheapest(*asked(free, [S(0), S(0)], [R, R], (8,), 1)) == Total(0, 1, 10)
    free = replace(by_bytes([2, 2]), callback=lambda *_: 0.0)
    assert cheapest(*asked(free, [S(0), S(0)], [R, R], (8,), 1)) == Total(0, 2, 12)


def test_nothing_to_do_costs_nothing() -> None:
    for layout in all_layouts(2, 2, every_order=True):
        assert cheapest(*asked(ring_model((4, 4)), layout, layout)) == Total(0, 0, 0)


def test_a_mesh_dim_of_size_1_costs_nothing() -> None:
    model = ring_model((1, 4))
    assert cheapest(*asked(model, [P, S(0)], [S(1), S(0)])) == Total(0, 0, 0)


def test_what_a_plan_cannot_introduce_cannot_be_reached() -> None:
    model = ring_model((4,))
    assert cheapest(*asked(model, [R], [Partial("product")])) is None
    assert cheapest(*asked(model, [R], [MASK])) is None
    assert cheapest(*asked(model, [MASK], [MASK])) == Total(0, 0, 0)


def test_one_partial_becomes_another_by_way_of_a_reduction() -> None:
    model = by_bytes([2])
    # 8 bytes are reduced; the partition is free.
    assert cheapest(*asked(model, [P], [MAX], (8,), 1)) == Total(8, 1, 16)


# Random questions ---------------------------------------------------------------------------------


def questions(
    seed: int, count: int, *, strided: float = 0.1, special: float = 0.03, limited: float = 0.1
) -> list[Question]:
    rng = random.Random(seed)
    shapes = [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2)]
    return [
        random_question(
            rng, *shapes[i % len(shapes)], strided=strided, special=special, limited=limited
        )
        for i in range(count)
    ]


def test_random_questions_are_of_all_kinds_and_become_specs(mesh_of) -> None:
    asked_for = questions(0, 300, strided=0.3, special=0.1)
    answers = [cheapest(question.problem, question.start) for question in asked_for]
    assert 0.6 < sum(answer is not None for answer in answers) / len(answers) < 1
    assert any(question.memory_limit is not None for question in asked_for)
    assert any(question.model.all_to_all_gathers for question in asked_for)
    assert any(1 in question.model.sizes for question in asked_for)
    for question in asked_for[:60]:
        source, target = question.specs(mesh_of(*question.model.sizes))
        assert state_of_spec(source) == question.start
        assert state_of_spec(target) == question.problem.target


def test_every_move_is_there_once_and_costs_no_less_than_nothing() -> None:
    for question in questions(1, 300):
        problem = question.problem
        found = list(moves(question.start, problem))
        assert len({(move.kind, move.mesh_dims, move.after) for move in found}) == len(found)
        for move in found:
            assert move.after.layout() != question.start
            assert min(move.comm_ps, move.local_ps, *work(move), move.peak) >= 0
            assert problem.memory_limit is None or move.peak <= problem.memory_limit


def test_a_plan_costs_what_its_steps_cost() -> None:
    reached = 0
    for question in questions(2, 200):
        problem, start = question.problem, question.start
        plan = cheapest_plan(problem, start)
        if plan is not None:
            steps = steps_of(plan, start)
            assert price_of_steps(steps, problem, start) == cheapest(problem, start)
            reached += bool(plan)
    assert reached > 100


def test_all_prices_are_those_of_one_target_after_the_other() -> None:
    compared = 0
    for question in questions(3, 40):
        prices = all_prices(question.problem, question.start)
        for target in list(prices)[:15]:
            one = replace(question.problem, target=target)
            assert prices[target] == cheapest(one, question.start)
            compared += 1
    assert compared > 200


def test_all_prices_are_only_to_layouts_that_introduce_what_the_target_does() -> None:
    problem, start = asked(by_bytes([2, 2]), [P, R], [R, P], (8,))
    found = {layout_of(state).placements for state in all_prices(problem, start)}
    assert found == {(R, P), (S(0), P)}


def test_no_way_round_is_cheaper() -> None:
    """By way of a layout without partials and strided shards, which can be left again."""
    rng = random.Random(4)
    compared = 0
    for question in questions(5, 250, limited=0.0):
        problem, start = question.problem, question.start
        middle = random_layout(rng, len(question.model.sizes), len(question.shape))
        plain = [Replicate() if isinstance(p, Partial) else p for p in middle.placements]
        middle = Layout(tuple(plain), middle.shard_order)
        between = state_of(middle, question.model.sizes, len(question.shape))
        there = cheapest(replace(problem, target=between), start)
        back = cheapest(problem, between)
        if there is not None and back is not None:
            direct = cheapest(problem, start)
            assert direct is not None
            assert direct.cost_ps <= there.cost_ps + back.cost_ps
            compared += 1
    assert compared > 150


def test_more_groups_and_more_memory_never_cost_more() -> None:
    rng = random.Random(6)
    gained = 0
    for _ in range(100):
        sizes = random_sizes(rng, 3)
        model = random_model(rng, sizes)
        shape = random_shape(rng, 2)
        ends = (random_layout(rng, 3, 2), random_layout(rng, 3, 2))
        problem, start = asked(model, *ends, shape)
        alone = tuple(costs for costs in model.groups if len(costs.mesh_dims) == 1)
        without = cheapest(replace(problem, model=replace(model, groups=alone)), start)
        total = cheapest(problem, start)
        assert (total is None) == (without is None)
        if total is not None and without is not None:
            assert total <= without
            gained += total < without
            limited = cheapest(replace(problem, memory_limit=total.peak_bytes), start)
            assert limited == total
    assert gained > 10


# Steps of others ----------------------------------------------------------------------------------


def test_steps_that_lie_are_refused() -> None:
    problem, start = asked(ring_model((8, 8)), [P, P], [R, R])
    plan = cheapest_plan(problem, start)
    assert plan is not None
    steps = steps_of(plan, start)
    with pytest.raises(ValueError, match=r"the steps end at \(R, S\(0\)\), not at the target"):
        price_of_steps(steps[:-1], problem)
    with pytest.raises(ValueError, match=r"step 1 starts at .*, but the plan is at"):
        price_of_steps([steps[0], steps[2]], problem)
    with pytest.raises(ValueError, match=r"step 0 starts at \(P\(sum\), S\(0\)\), but"):
        price_of_steps(steps[1:], problem, start)
    with pytest.raises(ValueError, match=r"step 0, all_to_all on \(1,\) .* is no legal move"):
        price_of_steps([replace(steps[0], kind="all_to_all"), *steps[1:]], problem)
    cheaper = replace(steps[0], comm_us=steps[0].comm_us - 2e-6)
    with pytest.raises(ValueError, match=r"step 0, reduce_scatter .* is said to be .* expected"):
        price_of_steps([cheaper, *steps[1:]], problem)


def test_steps_that_reduce_what_they_introduced_are_refused() -> None:
    model = by_bytes([2, 2])
    problem, start = asked(model, [R, R], [P, R], (8,), 1)
    (partition,) = (move for move in moves(start, problem) if move.kind == "partition")
    back = replace(only(list(moves(partition.after.layout(), problem)), "all_reduce"), after=start)
    steps = steps_of([partition, back, partition], start)
    with pytest.raises(ValueError, match=r"step 1, all_reduce on \(0,\) .* is no legal move"):
        price_of_steps(steps, problem)


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
