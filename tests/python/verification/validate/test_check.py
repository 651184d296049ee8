"""A wrong rule is found, a right one is not; what is not claimed is told once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Partial as P
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor._ops.single_dim_strategy import _SingleDimStrategyInfo

import shardprop
from shardprop import _torch
from shardprop.rules.placeholder import ShardingPlaceholder
from shardprop.verification.calls.call import Call
from shardprop.verification.settings import Settings
from shardprop.verification.simulator.execution import Executable
from shardprop.verification.simulator.simulation import varied
from shardprop.verification.validate.check import check_op
from shardprop.verification.validate.results import OpReport

from ...custom_ops import ops
from ...specs import R

aten = torch.ops.aten
X = ShardingPlaceholder
Rows = list[list[Any]]
Register = Callable[[Any, Rows], None]


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture
def rule() -> Iterator[Register]:
    """Registers rows in torch's registry, and takes them out again."""
    known = _torch.propagator().op_single_dim_strategy_funcs
    infos = _torch.propagator().op_to_schema_info_for_single_dim_strategy
    before, infos_before = dict(known), dict(infos)

    def register(op: Any, rows: Rows) -> None:
        known[op] = _SingleDimStrategyInfo(lambda op, args, kwargs: rows)
        infos[op] = RuntimeSchemaInfo()

    yield register
    known.clear()
    known.update(before)
    infos.clear()
    infos.update(infos_before)


def check(op: Any, *calls: Sequence[Any], settings: Settings | None = None) -> OpReport:
    return check_op(op, [Call(op, tuple(args)) for args in calls], settings)


def wrong(report: OpReport) -> set[tuple[tuple[str, ...], tuple[int, ...]]]:
    return {(finding.rows, finding.mesh) for finding in report.unsound}


MM = ([X(0), X(0), R], [X(1), R, X(1)], [P("sum"), X(1), X(0)], [P("sum"), P("sum"), R])


def test_right_rows_are_not_reported(rule: Register) -> None:
    rule(aten.mm.default, [list(row) for row in MM])
    report = check(aten.mm.default, (torch.randn(8, 7), torch.randn(7, 9)))
    assert report.unsound == []
    assert report.rule == "registered rule"
    assert report.calls == 1
    assert report.rows == 7  # three of them with two kinds of shards
    assert report.checks > 50


def test_a_wrong_row_is_reported_with_what_differs(rule: Register) -> None:
    rule(aten.mm.default, [*([*row] for row in MM), [R, X(1), X(0)]])
    report = check(aten.mm.default, (torch.randn(8, 7), torch.randn(7, 9)))
    assert (("S(1), S(0) -> R",), (2,)) in wrong(report)
    first = report.unsound[0]
    assert "replicas on ranks 0 and 1 are not the same" in first.reason
    assert first.call == "aten.mm.default(float32[8, 7], float32[7, 9])"


def test_the_part_of_a_rule_in_the_notation_is_named_that_claims_a_wrong_row() -> None:
    with shardprop.temporary_rules():
        shardprop.register_rule(aten.abs.default, "+... -> ...; P(max) -> P(max)", override=True)
        report = check(aten.abs.default, (torch.randn(8, 8),))
    assert {(finding.rows, finding.origins) for finding in report.unsound} == {
        (("P(sum) -> P(sum)",), ("mark +",)),
        (("P(avg) -> P(avg)",), ("mark +",)),
        (("P(max) -> P(max)",), ("row 0 of those written out",)),
    }


def test_a_row_that_makes_a_rank_fail_is_reported_with_its_error(rule: Register) -> None:
    rule(aten.mm.default, [[X(0), X(0), X(0)]])
    report = check(aten.mm.default, (torch.randn(8, 8), torch.randn(8, 8)))
    reasons = {finding.reason for finding in report.unsound}
    assert any("rank 0: RuntimeError" in reason for reason in reasons)


def test_a_shard_that_is_empty_on_some_rank_is_named(rule: Register) -> None:
    """Four elements are enough for three ranks, says torch; the chunks are of 2, 2 and 0."""
    rule(aten.amax.default, [[P("max"), X(0)]])
    report = check(aten.amax.default, (torch.randn(4, 6), [0]))
    assert wrong(report) >= {(("S(0) -> P(max)",), (3,))}
    assert report.unsound[0].reason.startswith("rank 2, of which a shard is empty: ")


def test_a_row_that_is_right_by_chance_of_signs_is_reported(rule: Register) -> None:
    rule(aten.abs.default, [[P("sum"), P("sum")], [P("max"), P("max")]])
    report = check(aten.abs.default, (torch.rand(8, 8),))
    assert {rows for rows, _ in wrong(report)} == {("P(sum) -> P(sum)",), ("P(max) -> P(max)",)}


def test_a_row_is_reported_once_though_many_calls_show_it(rule: Register) -> None:
    rule(aten.abs.default, [[P("sum"), P("sum")]])
    report = check(aten.abs.default, *[(torch.randn(8, 8),) for _ in range(4)])
    assert len(report.unsound) == 1


def test_what_a_placeholder_asks_of_the_size_is_kept(rule: Register) -> None:
    """The mean of unequal shards is no mean."""
    call = (torch.randn(7, 8),)
    rule(aten.mean.default, [[P("avg"), X(0)]])
    assert (("S(0) -> P(avg)",), (2,)) in wrong(check(aten.mean.default, call))
    rule(aten.mean.default, [[P("avg"), X(0, even=True)]])
    assert check(aten.mean.default, call).unsound == []


def test_missing_rows_are_reported_once(rule: Register) -> None:
    rule(aten.mm.default, [list(row) for row in MM[1:]])
    calls = [(torch.randn(8, 7), torch.randn(7, 9)) for _ in range(3)]
    report = check(aten.mm.default, *calls)
    rows = [finding.rows for finding in report.missing]
    assert rows.count(("S(0), R -> S(0)",)) == 1
    assert ("_S(0, 2), R -> _S(0, 2)",) not in rows  # the plain one says it
    assert report.unsound == []
    settings = Settings(missing=False)
    assert check(aten.mm.default, *calls, settings=settings).missing == []


def test_a_row_that_fails_for_one_call_of_a_kind_is_not_missing(rule: Register) -> None:
    """Of a permutation by values, which differ where nothing else does."""
    rule(aten.index_select.default, [[X(1), X(1), R]])
    same, other = torch.tensor([0, 1, 2, 3]), torch.tensor([3, 2, 0, 1])
    report = check(
        aten.index_select.default, (torch.randn(4, 6), 0, same), (torch.randn(4, 6), 0, other)
    )
    assert not any(finding.rows[0].startswith("S(0), R") for finding in report.missing)


def test_pairs_of_rows_are_composed(rule: Register) -> None:
    rule(aten.relu.default, [[X(0), X(0)], [X(1), X(1)]])
    settings = Settings(ranks=(2,), missing=False)
    without = Settings(ranks=(2,), missing=False, composed=())
    call = (torch.randn(9, 8),)
    report = check(aten.relu.default, call, settings=settings)
    assert report.unsound == []
    assert report.checks > check(aten.relu.default, call, settings=without).checks


def test_in_place_rows_that_move_the_operand_are_never_used(rule: Register) -> None:
    rule(aten.relu_.default, [[R, X(0)], [X(0), X(0)]])
    report = check(aten.relu_.default, (torch.randn(8, 8),))
    assert report.unsound == []
    assert report.rows == 2


@pytest.mark.skipif(_torch.IS_215_OR_LATER, reason="torch 2.15 counts the dim from the end")
def test_a_defect_of_torch_is_found() -> None:
    """cumsum over the last dim of a vector that is sharded: torch 2.13 takes -1 for another dim."""
    report = check(aten.cumsum.default, (torch.randn(6), -1), settings=Settings(rule="torch"))
    assert (("S(0) -> S(0)",), (2,)) in wrong(report)


def test_partials_that_are_overwritten_are_found(rule: Register) -> None:
    """What torch claims of fill_: each rank fills, and the sum is as many times too large."""
    rule(aten.fill_.Scalar, [[P("sum"), P("sum")], [X(0), X(0)]])
    report = check(aten.fill_.Scalar, (torch.randn(4, 6), 1.0))
    assert {rows for rows, _ in wrong(report)} == {("P(sum) -> P(sum)",)}


def test_rows_with_placements_that_cannot_be_simulated_are_counted() -> None:
    report = check(aten.embedding.default, (torch.randn(8, 6), torch.randint(0, 8, (4, 5))))
    assert report.unsound == []
    assert report.skipped["claim: placement _MaskPartial"] == 2


def test_calls_that_say_nothing_are_counted() -> None:
    report = check(aten.rand_like.default, (torch.ones(4),), (torch.ones(5),))
    assert report.calls == 0
    assert report.skipped == {"random op": 2}


@pytest.mark.slow
@pytest.mark.parametrize("which", ["active", "torch"])
@pytest.mark.parametrize(
    ("op", "args"),
    [
        (aten.mm.default, (torch.randn(8, 7), torch.randn(7, 9))),
        (aten.add.Tensor, (torch.randn(8, 7), torch.randn(7))),
        (aten.add_.Tensor, (torch.randn(8, 7), torch.randn(8, 7))),
        (aten._softmax.default, (torch.randn(8, 7), 1, False)),
        (aten.sum.dim_IntList, (torch.randn(8, 7), [1])),
        (aten.view.default, (torch.randn(4, 6, 3), [24, 3])),
        (aten.cat.default, ([torch.randn(4, 6), torch.randn(5, 6)], 0)),
        (aten.split.Tensor, (torch.randn(8, 6), 2, 1)),
        (aten._foreach_add.List, ([torch.randn(4, 6)] * 2, [torch.randn(4, 6)] * 2)),
        (aten.native_layer_norm.default, (torch.randn(4, 8), [8], None, None, 1e-5)),
        (aten.linalg_vector_norm.default, (torch.randn(8, 7), 2, [1])),
        (aten.aminmax.default, (torch.randn(12, 12),)),
    ],
    ids=lambda x: str(x) if isinstance(x, torch._ops.OpOverload) else "",
)
def test_rules_that_are_right_have_no_unsound_rows(op: Any, args: Any, which: Any) -> None:
    report = check(op, args, settings=Settings(rule=which))
    assert report.unsound == []
    assert report.calls == 1


def test_no_row_is_claimed_of_what_torch_hands_to_a_function() -> None:
    """It asks for no decision, so that the rule that torch has for the op is not in force."""
    unscale = aten._amp_foreach_non_finite_check_and_unscale_.default
    report = check(unscale, ([torch.ones(6, 4)], torch.zeros(1), torch.ones(1)))
    assert (report.rows, report.checks, report.error) == (0, 0, None)
    assert report.runs > 0
    assert any("hands the op to a function" in reason for reason in report.skipped)


@pytest.mark.skipif(not _torch.IS_215_OR_LATER, reason="torch 2.13 lists no rows for this op")
def test_rows_of_torchs_that_leave_out_an_output_are_not_tried() -> None:
    """torch refuses the op by them, and so do we: nothing is wrong with what cannot be called."""
    call = Call(aten.amax.out, (torch.randn(6, 4), [1]), {"out": torch.randn(6)})
    report = check_op(aten.amax.out, [call])
    assert (report.rows, report.error, report.unsound, report.wrong) == (0, None, [], [])
    assert any("for which torch refuses the op" in reason for reason in report.skipped)


def test_what_an_out_argument_holds_is_not_varied() -> None:
    call = Call(aten.add.out, (torch.ones(4), torch.ones(4)), {"out": torch.ones(4)})
    own, other = varied(Executable(call))
    assert float(other.operands[0][0]) < 0 < float(own.operands[0][0])
    assert other.operands[2] is own.operands[2]


def test_kinds_of_rules() -> None:
    args = (torch.randn(8, 7), [56])
    settings = Settings(ranks=(2,), missing=False)
    assert check(aten.view.default, args, settings=settings).rule == "own rule"
    settings = Settings(ranks=(2,), missing=False, rule="torch")
    report = check(aten.view.default, args, settings=settings)
    assert report.rule == "torch full-mesh strategy"
    assert report.rows > 2


def test_no_call_is_begun_after_the_deadline() -> None:
    calls = [Call(aten.relu.default, (torch.randn(4, 4),))] * 3
    report = check_op(aten.relu.default, calls, deadline=time.monotonic() - 1)
    assert report.calls == 0
    assert report.error == "time limit"


@pytest.mark.parametrize(
    ("reduce_op", "unsound"), [("avg", set()), ("max", {"S(0) -> P(max)", "_S(0, 2) -> P(max)"})]
)
def test_rows_of_registered_rules_that_ask_of_sizes_are_tried(
    reduce_op: str, unsound: set[str]
) -> None:
    """torch is not shown these rows, for it cannot ask; the core uses them."""
    with shardprop.temporary_rules():
        row = [P(reduce_op), shardprop.ShardingPlaceholder(0, even=True)]
        shardprop.register_single_dim_rule(aten.mean.default, override=True)(lambda *_: [row])
        settings = Settings(missing=False)
        report = check(aten.mean.default, (torch.randn(12, 8),), settings=settings)
    assert {text for rows, _ in wrong(report) for text in rows} == unsound
    assert report.rows == 2


def test_what_is_asked_holds_on_all_mesh_dims_together() -> None:
    """Six elements are even on two ranks, and their halves are not."""
    with shardprop.temporary_rules():
        rows = [[P("avg"), shardprop.ShardingPlaceholder(0, even=True)]]
        shardprop.register_single_dim_rule(aten.mean.default, override=True)(lambda *_: rows)
        settings = Settings(ranks=(2,), composed=(2, 2), missing=False)
        report = check(aten.mean.default, (torch.randn(6, 8),), settings=settings)
    assert report.unsound == []
    assert report.rows == 1


def test_what_is_asked_of_outputs_is_kept() -> None:
    """An output of seven elements is never even, so the row, which is wrong, is never used."""
    with shardprop.temporary_rules():
        rows = [[shardprop.ShardingPlaceholder(1, even=True), shardprop.ShardingPlaceholder(0)]]
        shardprop.register_single_dim_rule(aten.relu.default, override=True)(lambda *_: rows)
        settings = Settings(missing=False)
        assert check(aten.relu.default, (torch.randn(6, 7),), settings=settings).rows == 0
        assert check(aten.relu.default, (torch.randn(6, 6),), settings=settings).unsound


def test_what_is_sorted_stays_so_in_other_data(rule: Register) -> None:
    """A search in halves of what is sorted finds two places, which add up."""
    rule(aten.bucketize.Tensor, [[P("sum"), R, X(0)]])
    boundaries = torch.tensor([-3.0, -1.0, 0.5, 0.6, 2.0, 4.0])
    report = check(aten.bucketize.Tensor, (torch.randn(20) * 3, boundaries))
    assert report.unsound == []
    assert report.rows > 0


def test_infinities_that_a_sum_loses_are_no_fault(rule: Register) -> None:
    """5 / 0 is not 7 / 0 + -2 / 0; a wrong row is wrong elsewhere too."""
    call = (torch.randint(-9, 9, (6, 8)), torch.arange(48).reshape(6, 8) % 7)
    settings = Settings(missing=False)
    rule(aten.div.Tensor, [[P("sum"), P("sum"), R]])
    assert check(aten.div.Tensor, call, settings=settings).unsound == []
    rule(aten.div.Tensor, [[P("sum"), R, P("sum")]])
    assert check(aten.div.Tensor, call, settings=settings).unsound


def test_an_out_argument_that_the_op_does_not_resize_is_as_large_as_its_placement_says(
    rule: Register,
) -> None:
    """Its kernel copies into what it is given."""
    op = ops.mix.out
    rule(op, [[X(0)] * 4, [X(1), X(1), R, X(1)]])
    x, y = torch.randn(6, 4), torch.randn(6, 4)
    report = check_op(op, [Call(op, (x, y), {"out": torch.zeros(6, 4)})])
    assert report.calls == 1
    assert (("S(1), R, S(1) -> S(1)",), (2,)) in wrong(report)
    assert (("S(0), S(0), S(0) -> S(0)",), (2,)) not in wrong(report)


def test_a_number_is_not_lost_in_an_out_argument_without_elements(rule: Register) -> None:
    """It can be copied there, and leaves nothing to compare."""
    with torch.library._scoped_library("shardprop_test", "FRAGMENT") as library:
        library.define("total(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
        library.impl("total", lambda x, out: out.copy_(x.sum()), "CPU")
        op = torch.ops.shardprop_test.total.default
        rule(op, [[P("max"), X(0), P("max")]])
        report = check_op(op, [Call(op, (torch.randn(6),), {"out": torch.zeros(())})])
    assert (("S(0), P(max) -> P(max)",), (2,)) in wrong(report)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (torch.ones(1, 1), torch.randn(1, 1)),
        (torch.full((6, 4), torch.nan), torch.randn(4, 6)),
        (torch.zeros(6, 4), torch.randn(4, 6)),
    ],
)
def test_calls_that_say_nothing_are_no_good_news(
    rule: Register, x: torch.Tensor, y: torch.Tensor
) -> None:
    """A row is too large for them, or any row would hold."""
    rule(aten.mm.default, [[X(0), X(0), R]])
    report = check(aten.mm.default, (x, y), settings=Settings(missing=False))
    assert report.unsound == []
    assert report.error is not None
    assert report.error.startswith("no row of the rule could be tried: ")
    other = torch.randn(6, 4), torch.randn(4, 6)
    assert check(aten.mm.default, (x, y), other, settings=Settings(missing=False)).error is None


def test_a_rule_that_lists_no_row_is_tried(rule: Register) -> None:
    rule(aten.mm.default, [])
    assert check(aten.mm.default, (torch.randn(6, 4), torch.randn(4, 6))).error is None


def test_what_a_rule_or_an_op_raises_is_told(rule: Register) -> None:
    rule(aten.mm.default, [[X(0), X(0), R]])
    report = check(aten.mm.default, (torch.randn(6, 4), torch.randn(5, 4)))
    (reason,) = report.skipped
    assert reason.startswith("the op raises on the whole tensors: RuntimeError: ")
    assert "mat1 and mat2 shapes cannot be multiplied (6x4 and 5x4)" in reason

    def asks_too_much(op: Any, args: Any, kwargs: Any) -> Rows:
        raise ValueError("no rule for " + 300 * "x" + "\nand more")

    _torch.propagator().op_single_dim_strategy_funcs[aten.mm.default] = _SingleDimStrategyInfo(
        asks_too_much
    )
    report = check(aten.mm.default, (torch.randn(6, 4), torch.randn(4, 5)))
    (run,) = (reason for reason in report.skipped if reason.startswith("gradients: "))
    assert run.startswith("gradients: forward: ")  # the error that a program sees
    (reason,) = report.skipped.keys() - {run}
    assert reason.startswith("the rule raises ValueError: no rule for xxx")
    assert reason.endswith("x...") and len(reason) < 240


def test_a_pending_sum_of_flags_beside_numbers_is_left_out_of_made_up_calls(rule: Register) -> None:
    """A rule of sums need not ask for dtypes; between flags alone it is put to the test."""
    rule(aten.add.Tensor, [[P("sum"), P("sum"), P("sum")]])
    numbers, flags = torch.randn(6, 4), torch.rand(6, 4) > 0.5
    calls = [
        Call(aten.add.Tensor, args, {}, "made up of the schema, 0")
        for args in ((numbers, flags), (numbers, numbers))
    ]
    report = check_op(aten.add.Tensor, calls, Settings(missing=False))
    assert report.unsound == []
    assert report.error is None
    assert "claim: P(sum) of flags beside numbers" in report.skipped
    # A call that somebody makes counts.
    assert check(aten.add.Tensor, (numbers, flags), settings=Settings(missing=False)).unsound
    rule(aten.logical_xor.default, [[P("sum"), P("sum"), P("sum")]])
    assert check(aten.logical_xor.default, (flags, ~flags.roll(1))).unsound
