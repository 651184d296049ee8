"""Plans of the oracle: torch's printed table, its graph planner, and laws that prices obey."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from torch.distributed.tensor import Partial, Replicate
from torch.distributed.tensor._collective_utils import redistribute_cost
from torch.distributed.tensor._redistribute import use_min_cost_redistribution_plan

from shardprop.model.plan_steps import Layout

from ..parity.oracle import forget_history
from ..specs import P, R, S
from .asking import MASK, MAX, asked, by_bytes, only, work
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
    spec_of_layout,
)
from .models import all_groups, random_model, ring_model
from .moves import moves
from .state import (
    layout_of,
    state_of,
    state_of_spec,
)

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


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "tensor_ndim"), [((2, 4), 3), ((3, 3), 2), ((2, 2, 4), 2)])
def test_plans_of_torchs_own_steps_cost_what_its_graph_planner_finds(
    mesh_of, sizes, tensor_ndim
) -> None:
    rng = random.Random(8)
    model = ring_model(sizes, devices_per_host=torch.cpu.device_count())
    sources = list(all_layouts(len(sizes), tensor_ndim, every_order=True))
    # torch takes the introduction of a partial for free; here it has its price.
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
    model = ring_model((4, 2))
    assert cheapest(*asked(model, [R, R], [Partial("product"), R])) is None
    # What is masked is not masked a second time, and nothing is gathered to be masked.
    assert cheapest(*asked(model, [S(0), R], [MASK, R])) is None
    assert cheapest(*asked(model, [MASK, R], [MASK, S(0)])) is None
    assert cheapest(*asked(model, [MASK, R], [MASK, R])) == Total(0, 0, 0)


def test_masks_are_made_at_the_end() -> None:
    """On half of the indices, once these are where they are wanted."""
    model = by_bytes([2, 4], memory_us_per_byte=1e-6)
    # 64 bytes are cut to 32, which 64 are read and written for; of those, masks are made.
    assert cheapest(*asked(model, [R, R], [S(0), MASK], (16,), 4)) == Total(64 + 8 * 32, 0, 96)


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


@pytest.mark.slow
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


@pytest.mark.slow
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
