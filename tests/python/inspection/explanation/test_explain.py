"""One decision: who takes it, why the winner won, what fails and what helps."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

import shardprop
from shardprop.inspection.explanation import DecisionExplanation, Explanation, explain_schema
from shardprop.planning.look_ahead.consumers import Consumers, Use, call_key
from shardprop.rules.torch_registry import op_schema

from ... import symbolic
from ...specs import SS, P, R, S, spec_of
from .meshes import named_mesh
from .schema import validate

aten = torch.ops.aten


def explained(op: Callable[..., Any], *args: object, **kwargs: object) -> DecisionExplanation:
    explanation = shardprop.explain(op, *args, **kwargs)
    document = explanation.to_json()
    validate(json.loads(json.dumps(document, allow_nan=False)))
    assert str(op) in str(explanation)
    assert f"<Explanation of {op}: 1 decision, " in repr(explanation)
    assert "-&gt;" in explanation._repr_html_() or "->" not in str(explanation)
    return explanation.decision


def test_a_tie_is_named_and_the_next_dearer_given() -> None:
    mesh = named_mesh(tp=4)
    found = explained(
        aten.add.Tensor, spec_of(mesh, (8, 8), (S(0),)), spec_of(mesh, (8, 8), (S(1),))
    )
    assert found.reason == "first of equal cost"
    assert "2 cost as much" in found.why and "the next dearer" in found.why
    first, second, third = found.candidates[:3]
    assert first.us == second.us < third.us
    assert found.operands[0].name == "self" and found.operands[0].layout == "S(0)"


def test_of_strategies_that_redistribute_nothing_the_last_wins() -> None:
    mesh = named_mesh(a=1)
    found = explained(aten.mm.default, spec_of(mesh, (8, 8), (R,)), spec_of(mesh, (8, 8), (R,)))
    assert found.reason == "redistributes nothing"
    assert found.moves == () and found.advice == ()


def test_rows_say_where_they_come_from() -> None:
    mesh = named_mesh(tp=2, ep=2)
    strided = spec_of(mesh, (8, 8, 8), (SS(0, 2), S(0)), strided_is_order=False)
    found = explained(aten.bmm.default, strided, spec_of(mesh, (8, 8, 8), (R, R)))
    assert found.rows[0].source is None
    assert [row.number for row in found.rows] == [*range(len(found.rows))]
    # One row of the rule for each kind of shard.
    assert [row.source for row in found.rows].count(0) == 2
    assert found.rule.kind == "rows" and found.rule.origin == "torch"
    assert "torch/distributed/tensor/_ops/_matrix_ops.py:" in found.rule.where


def test_moves_have_plans_with_steps_and_bytes() -> None:
    mesh = named_mesh(dp=2, tp=4)
    x = spec_of(mesh, (1024, 1024), (S(0), S(1)))
    found = explained(aten.mm.default, x, spec_of(mesh, (1024, 1024), (R, S(1))))
    (move,) = found.moves
    assert (move.operand, move.name) == (1, "mat2")
    assert move.dst.placements == (Replicate(), Shard(0))
    assert move.plan is not None
    assert [step.kind for step in move.plan.steps] == ["all_to_all"]
    assert move.plan.cost_us == pytest.approx(move.us)
    assert "all_to_all on tp" in str(shardprop.Explanation("mm", [found]))


def test_a_mesh_dim_without_a_name_is_called_by_its_number() -> None:
    mesh = init_device_mesh("cpu", (2, 4))
    x = spec_of(mesh, (1024, 1024), (S(0), S(1)))
    text = str(shardprop.explain(aten.mm.default, x, spec_of(mesh, (1024, 1024), (R, S(1)))))
    assert "(row 2 on mesh dim 0, row 1 on mesh dim 1)" in text
    assert "all_to_all on mesh dim 1: " in text


def test_advice_names_the_operand_and_what_it_saves() -> None:
    mesh = named_mesh(dp=2, tp=4)
    x = spec_of(mesh, (1024, 1024), (S(0), S(1)))
    found = explained(aten.mm.default, x, spec_of(mesh, (1024, 1024), (R, S(1))))
    best = found.advice[0]
    assert (best.operand, best.placements) == ("mat2", (Replicate(), Shard(0)))
    assert best.us == 0 and best.saves_us == found.us
    assert best.text.startswith("shard `mat2` on dim 0 of mesh dim `tp`: the op then moves nothing")
    assert all(
        [advice.operand for advice in found.advice].count(name) <= 3 for name in ("self", "mat2")
    )


def test_advice_changes_no_more_than_it_has_to() -> None:
    mesh = named_mesh(dp=2, tp=4)
    x = spec_of(mesh, (64, 128), (S(0), R))
    found = explained(aten.mm.default, x, spec_of(mesh, (128, 256), (S(0), R)))
    assert any(a.text.startswith("replicate `mat2` on mesh dim `dp`:") for a in found.advice)
    assert not any("mesh dim `tp`" in a.text for a in found.advice if a.operand == "mat2")


def test_too_small_a_dim_is_told_in_ranks_and_elements() -> None:
    mesh = named_mesh(dp=2, tp=4)
    found = explained(
        aten.add.Tensor, spec_of(mesh, (7, 8), (S(0), R)), spec_of(mesh, (7, 8), (R, S(1)))
    )
    texts = [r.text for r in found.rejections if r.filter == "too_small"]
    assert texts == [
        "row 1 on mesh dim tp: dim 0 of `self` has 7 elements, 8 ranks cut it (after row 1 on dp)"
    ]


def test_a_result_that_goes_into_an_out_argument_stays_there() -> None:
    mesh = named_mesh(tp=4)
    x = spec_of(mesh, (8, 8), (S(0),))
    found = explained(aten.add.out, x, x, out=spec_of(mesh, (8, 8), (S(1),)))
    assert {r.filter for r in found.rejections} == {"fixed"}
    assert found.operands[2].name == "out"
    assert [move.name for move in found.moves] == ["self", "other"]


def test_an_operand_without_a_finite_price_is_named() -> None:
    mesh = named_mesh(tp=2, ep=2)
    strided = spec_of(mesh, (8, 8, 8), (SS(0, 2), S(0)), strided_is_order=True)
    found = explained(aten.bmm.default, strided, spec_of(mesh, (8, 8, 8), (S(1), R)))
    assert any("no finite price for `self`" in note for note in found.notes)


def test_a_price_that_leaves_the_plan_out_is_told() -> None:
    mesh = named_mesh(dp=2, tp=2)
    queries = spec_of(mesh, (64, 512, 64), (S(1), SS(0, 4)), strided_is_order=False)
    found = explained(aten.bmm.default, queries, spec_of(mesh, (64, 64, 512), (R, S(2))))
    assert found.us == 0
    assert any("torch takes moves of strided shards for free" in note for note in found.notes)


def test_an_op_that_follows_says_what_it_does_with_each_placement() -> None:
    mesh = named_mesh(dp=2, tp=4, cp=2)
    x = spec_of(mesh, (8, 16, 32), (S(0), S(1), P))
    found = explained(aten.transpose.int, x, 0, 1)
    assert found.reason == "follows operands"
    assert found.notes == (
        "`self` keeps S(0), which is S(1) of the output (mesh dim dp).",
        "`self` keeps S(1), which is S(0) of the output (mesh dim tp).",
        "`self` keeps P(sum) (mesh dim cp).",
    )
    assert found.rule.origin == "shardprop" and "shardprop/rules/" in found.rule.where


def test_a_list_op_is_explained_by_kinds_of_elements() -> None:
    mesh = named_mesh(tp=4)
    cut, across = spec_of(mesh, (8, 8), (S(0),)), spec_of(mesh, (8, 8), (S(1),))
    found = explained(aten._foreach_add.List, [cut, cut, cut], [cut, across, across])
    assert [each.alike for each in found.elements] == [1, 2]
    assert [operand.name for operand in found.operands] == ["self[1]", "other[1]"]
    assert found.us > 0 and found.total_us == 2 * found.us


def test_reading_a_number_out_decides_nothing() -> None:
    found = explained(aten._local_scalar_dense.default, spec_of(named_mesh(tp=4), (), (R,)))
    assert found.reason == "nothing is decided" and found.rule.kind == "reads a number out"


def test_an_op_with_a_handler_decides_nothing() -> None:
    x = spec_of(named_mesh(tp=4), (8, 8), (R,))
    found = explained(aten.is_same_size.default, x, x)
    assert found.reason == "nothing is decided" and found.rule.kind == "custom handler"


def test_rows_of_a_decomposition() -> None:
    found = explained(aten.aminmax.default, spec_of(named_mesh(tp=4), (8, 8), (S(0),)))
    assert found.rule.kind == "decomposition"
    assert found.rows and found.candidates


def test_a_strategy_that_the_program_gave_torch_is_torchs_to_decide() -> None:
    strategies = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    with torch.library._scoped_library("shardprop_explained", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        torch.library.register_fake("shardprop_explained::twice", torch.empty_like, lib=library)
        op = torch.ops.shardprop_explained.twice.default

        @register_sharding(op)
        def twice(x: object) -> object:
            return [([Replicate()], [Replicate()]), ([Shard(1)], [Shard(1)])]

        try:
            found = explained(op, spec_of(named_mesh(tp=4), (8, 8), (S(0),)))
        finally:
            del strategies[op]
    assert found.reason == "torch decides"
    assert found.rule.origin == "registered"
    assert len(found.candidates) == 2 and found.valid == 2
    assert [move.name for move in found.moves] == ["x"]
    assert found.candidates[0].us <= found.candidates[1].us


def test_an_op_without_a_rule_is_told_how_to_get_one() -> None:
    with torch.library._scoped_library("shardprop_explained", "DEF") as library:
        library.define("thrice(Tensor x) -> Tensor")
        torch.library.register_fake("shardprop_explained::thrice", torch.empty_like, lib=library)
        op = torch.ops.shardprop_explained.thrice.default
        found = explained(op, spec_of(named_mesh(tp=4), (8, 8), (S(0),)))
    assert found.error is not None and found.rule.kind == "none" and found.notes == ()
    assert f"shardprop.register_rule(torch.ops.{op}, ...)" in found.rule.where
    assert "shardprop discover shardprop_explained::thrice --module FILE" in found.rule.where
    assert "\nrule: none\n" in str(shardprop.Explanation(str(op), [found]))


def test_an_error_of_the_op_itself_is_its_error() -> None:
    mesh = named_mesh(tp=4)
    found = explained(aten.mm.default, spec_of(mesh, (8, 7), (R,)), spec_of(mesh, (8, 8), (R,)))
    assert found.error is not None and "same reduction dim" in found.error
    assert found.candidates == ()


def test_moves_that_a_function_of_torchs_does_not_carry_out_are_not_shown() -> None:
    """torch's dispatcher hands argmax over after the decision, and redistributes nothing for it."""
    found = explained(aten.argmax.default, spec_of(named_mesh(tp=4), (8, 16), (S(0),)))
    assert found.candidates[0].operands == ((R,),)
    assert found.moves == () and found.advice == ()
    assert any("argminmax_handler" in note and "do not run" in note for note in found.notes)


def test_a_difference_too_small_to_print_is_said_to_be_one() -> None:
    mesh = named_mesh(dp=2, cp=2, tp=4)
    weight = spec_of(mesh, (64, 16), (S(0), S(1), P))
    indices = spec_of(mesh, (8, 4), (R, S(0), S(1)), dtype=torch.int64)
    found = explained(aten.embedding.default, weight, indices)
    assert 0 < found.candidates[1].us - found.us < 0.05
    assert found.why.endswith("costs less than 0.1 us more.")


def test_arguments_may_be_given_by_name() -> None:
    mesh = named_mesh(tp=4)
    x, w = spec_of(mesh, (8, 16), (S(0),)), spec_of(mesh, (16, 8), (S(0),))
    by_place = shardprop.explain(aten.mm.default, x, w)
    for by_name in (
        shardprop.explain(aten.mm.default, self=x, mat2=w),
        shardprop.explain(aten.mm.default, x, mat2=w),
    ):
        assert by_name.to_json() == by_place.to_json()
    kept = shardprop.explain(aten.sum.dim_IntList, x, dim=None, keepdim=True)
    assert kept.to_json() == shardprop.explain(aten.sum.dim_IntList, x, None, True).to_json()
    softmax = shardprop.explain(aten.softmax.int, x, dtype=torch.float64, dim=0)
    assert "float64" in str(softmax)


@pytest.mark.parametrize("limit", [0, 2.5, "many", True])
def test_a_limit_is_a_count(limit: object) -> None:
    schema = op_schema(aten.relu.default, (spec_of(named_mesh(tp=4), (8, 16), (S(0),)),), {})
    with pytest.raises(shardprop.ShardpropError, match="limit: Expected 1 or more"):
        explain_schema(schema, limit=limit)  # type: ignore[arg-type]


def test_a_move_that_torch_does_not_carry_out_is_said_to_raise() -> None:
    mesh = named_mesh(dp=2, tp=4)
    layouts: dict[tuple[int, ...], list[Placement]]
    layouts = {(4, 8): [P, S(1)], (1, 16): [S(1), S(0)], (4, 32): [P, P]}
    tensors: list[torch.Tensor] = [
        DTensor.from_local(torch.ones(shape), mesh, p) for shape, p in layouts.items()
    ]
    found = shardprop.explain(aten.stack.default, tensors).decision
    (move,) = [move for move in found.moves if move.name == "tensors[0]"]
    assert math.isinf(move.us) and "no finite price" in found.why
    says_so = any("torch raises when the op runs" in note for note in found.notes)
    try:
        torch.stack(tensors)
    except RuntimeError as error:
        assert "not supported yet" in str(error)
        assert says_so and move.plan is None
    else:
        assert not says_so and move.plan is not None


def test_a_memory_limit_that_nothing_keeps_to_is_an_error() -> None:
    mesh = named_mesh(tp=4)
    settings: dict[str, Any] = {"policy": "optimal", "topology": "h100-nvlink", "memory_limit": 16}
    with shardprop.enabled(**settings):
        found = explained(
            aten.mm.default, spec_of(mesh, (64, 64), (S(0),)), spec_of(mesh, (64, 64), (S(0),))
        )
    assert found.error is not None and "memory_limit" in found.error


@pytest.mark.parametrize("weighed_by", ["output_weight", "consumers"])
@pytest.mark.parametrize("of_x", [R, S(1)])
def test_where_outputs_are_weighed_the_operands_alone_are_not_said_to_decide(
    of_x: Placement, weighed_by: str
) -> None:
    mesh = named_mesh(tp=4)
    x, w = spec_of(mesh, (4096, 1024), (of_x,)), spec_of(mesh, (1024, 2048), (S(0),))
    seen, call = Consumers(), call_key(aten.mm.default, (x, w), {})
    seen.ran(call)
    seen.used(call, 0, Use(None, (spec_of(mesh, (4096, 2048), (R,)),), {}, (0,)))
    weighing = {"output_weight": 1.0} if weighed_by == "output_weight" else {"consumers": seen}
    settings: dict[str, Any] = {"policy": "optimal", "topology": "h100-nvlink", **weighing}
    with shardprop.enabled(**settings):
        found = explained(aten.mm.default, x, w)
        decision = shardprop.propagate(aten.mm.default, x, w)
    winner, second = found.candidates[:2]
    assert winner.operands == decision.operands
    assert winner.us > second.us, "it wins by what its outputs do not cost"
    assert found.reason == "least cost"
    weighed = f"{decision.output_cost:.1f} us that its outputs cost later"
    assert weighed in found.why and "runner-up" not in found.why
    other = {"output_weight": "consumers", "consumers": "output_weight"}[weighed_by]
    (note,) = [note for note in found.notes if "weighed" in note]
    assert f"({weighed_by})" in note and f"({other})" not in note


def test_strategies_of_equal_cost_are_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under policy "optimal", too, where only some are listed."""
    monkeypatch.setattr("shardprop.inspection.explanation.explaining._MOST_SEARCHED", 2)
    mesh = named_mesh(dp=2, tp=4)
    x, w = spec_of(mesh, (64, 64), (R, R)), spec_of(mesh, (64, 64), (R, S(0)))
    schema = op_schema(aten.mm.default, (x, w), {})
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        every = explain_schema(schema, limit=1000)
        few = explain_schema(schema, limit=1)
    tied = sum(c.us == pytest.approx(every.us) for c in every.candidates)
    assert len(few.candidates) == 1 and tied > 2
    assert f"{tied} cost as much" in few.why and f"{tied} cost as much" in every.why


def test_of_too_many_strategies_only_the_winner_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = named_mesh(tp=4)
    monkeypatch.setattr("shardprop.inspection.explanation.by_rows._MOST_REPRICED", 2)
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        found = explained(
            aten.mm.default, spec_of(mesh, (64, 64), (S(0),)), spec_of(mesh, (64, 64), (S(0),))
        )
    assert len(found.candidates) == 1 and found.valid == 8
    assert found.reason == "least cost" and "too many others" in found.why
    assert "no candidate below uses" not in str(Explanation("mm", [found]))
    assert found.moves


@pytest.fixture
def scaled() -> Iterator[OpOverload]:
    """An op that writes into its first operand, with a rule of the program's."""
    with torch.library._scoped_library("shardprop_explained", "DEF") as library:
        library.define("scale_into(Tensor(a!) x, Tensor by) -> ()")
        torch.library.register_fake(
            "shardprop_explained::scale_into", lambda x, by: None, lib=library
        )
        with shardprop.temporary_rules():
            yield torch.ops.shardprop_explained.scale_into.default


def test_an_operand_that_a_registered_op_writes_into_cannot_move(scaled: OpOverload) -> None:
    mesh = named_mesh(tp=4)
    shardprop.register_rule(scaled, "m n, n -> ")
    x, by = spec_of(mesh, (8, 8), (S(0),)), spec_of(mesh, (8,), (S(0),))
    found = explained(scaled, x, by)
    assert found.rule.origin == "registered"
    assert "register_rule('m n, n ->" in found.rule.where and __file__ in found.rule.where
    assert "row 0 on mesh dim tp: `x` would go from S(0) to R, but torch cannot move it" in [
        rejection.text for rejection in found.rejections
    ]
    assert [move.name for move in found.moves] == ["by"]

    failed = explained(scaled, spec_of(mesh, (8, 8), (P,)), by)
    assert failed.error is not None and "redistribute before the call" in failed.error
    assert {rejection.filter for rejection in failed.rejections} == {"fixed"}


def test_what_a_row_asks_of_sizes_is_told(scaled: OpOverload) -> None:
    mesh = named_mesh(tp=4)

    @shardprop.register_single_dim_rule(scaled)
    def rule(op: object, args: object, kwargs: object) -> list[list[object]]:
        return [[shardprop.ShardingPlaceholder(0, min_local=4), Replicate()]]

    found = explained(scaled, spec_of(mesh, (8, 8), (R,)), spec_of(mesh, (8,), (R,)))
    assert "register_single_dim_rule above test_what_a_row_asks" in found.rule.where
    found = explained(scaled, spec_of(mesh, (8, 8), (S(0),)), spec_of(mesh, (8,), (R,)))
    assert found.error is not None
    texts = {each.filter: each.text for each in found.rejections}
    assert set(texts) == {"fixed", "constraint"}
    assert texts["constraint"].endswith("the rule asks more of S(0) of `x` than its size gives")


def test_limit_bounds_the_candidates() -> None:
    mesh = named_mesh(dp=2, tp=4)
    spec = spec_of(mesh, (8, 8), (S(0), R))
    schema = op_schema(aten.mm.default, (spec, spec), {})
    assert len(explain_schema(schema, limit=3).candidates) == 3
    with pytest.raises(shardprop.ShardpropError, match="limit: Expected 1 or more, got 0"):
        explain_schema(schema, limit=0)


def test_dtensors_and_tensors_of_one_element_stand_for_specs() -> None:
    mesh = named_mesh(tp=4)
    x = DTensor.from_local(torch.randn(2, 8), mesh, [Shard(0)])
    found = explained(aten.mul.Tensor, x, torch.tensor(2.0))
    assert found.operands[1].layout == "R" and found.us == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((3, 4), "Expected a DTensor or a DTensorSpec among the arguments, got none"),
        ((spec_of, torch.randn(8, 8)), r"got a torch.Tensor of \(8, 8\)"),
    ],
)
def test_arguments_that_are_none_are_refused(args: tuple[object, ...], message: str) -> None:
    spec = spec_of(named_mesh(tp=4), (8, 8), (R,))
    with pytest.raises(shardprop.ShardpropError, match=message):
        shardprop.explain(aten.mm.default, *(spec if arg is spec_of else arg for arg in args))


def test_symbolic_sizes_are_refused() -> None:
    symbols = symbolic.Symbols()
    with symbols.mode:
        shape = (symbols.backed("rows", 9), 8)
        spec = symbolic.spec_of(named_mesh(tp=4), shape, (R,))
    with pytest.raises(shardprop.ShardpropError, match="plain sizes"):
        shardprop.explain(aten.relu.default, spec)


def test_an_in_place_op_on_partials_of_two_kinds_has_no_strategy() -> None:
    mesh = named_mesh(dp=2, tp=4)
    x = spec_of(mesh, (8, 8), (P, Partial("max")))
    found = explained(aten.mul_.Tensor, x, spec_of(mesh, (8, 8), (R, R)))
    assert found.reason == "no strategy" and found.error is not None
    assert found.valid == 0 and found.considered > 0
    assert sum(r.dropped for r in found.rejections) == found.considered
