"""What holds for an op, against what is known to hold."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Shard

from shardprop.verification.calls.call import Call
from shardprop.verification.settings import Settings
from shardprop.verification.simulator.execution import Executable
from shardprop.verification.simulator.explore import explore
from shardprop.verification.simulator.partials import Untestable
from shardprop.verification.simulator.simulation import simulations, varied
from shardprop.verification.texts import row_text

aten = torch.ops.aten
PLAIN = Settings(strided_factors=())


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(0)


def rows_of(
    op: Any, *args: Any, ranks: int = 2, settings: Settings = PLAIN, **kwargs: Any
) -> set[str]:
    call = Executable(Call(op, args, kwargs))
    trials = simulations(call, varied(call), (ranks,), settings.seed)
    return {row_text(row) for row in explore(call, trials, settings).sound}


def same(*placements: str, width: int) -> set[str]:
    """Rows in which all operands and the output have one placement."""
    return {f"{', '.join([p] * (width - 1))} -> {p}" for p in placements}


def test_mm() -> None:
    expected = {
        "S(0), R -> S(0)",
        "R, S(1) -> S(1)",
        "S(1), S(0) -> P(sum)",
        "P(sum), R -> P(sum)",
        "R, P(sum) -> P(sum)",
        "P(avg), R -> P(avg)",
        "R, P(avg) -> P(avg)",
    }
    for ranks in (2, 3):
        assert (
            rows_of(aten.mm.default, torch.randn(6, 9), torch.randn(9, 8), ranks=ranks) == expected
        )


ADD = {
    *same("S(0)", "S(1)", "P(sum)", "P(avg)", width=3),
    "P(avg), R -> P(avg)",
    "R, P(avg) -> P(avg)",
    "P(max), R -> P(max)",
    "R, P(max) -> P(max)",
    "P(min), R -> P(min)",
    "R, P(min) -> P(min)",
}


def test_add() -> None:
    assert rows_of(aten.add.Tensor, torch.randn(4, 6), torch.randn(4, 6)) == ADD


def test_add_of_a_broadcast_operand() -> None:
    made = rows_of(aten.add.Tensor, torch.randn(4, 6), torch.randn(6))
    expected = (ADD - same("S(0)", "S(1)", width=3)) | {"S(0), R -> S(0)", "S(1), S(0) -> S(1)"}
    assert made == expected


def test_uneven_shards_and_strided_ones() -> None:
    made = rows_of(aten.relu.default, torch.randn(7, 2), ranks=3, settings=Settings())
    assert made == same("S(0)", "_S(0, 2)", "P(max)", "P(min)", width=2)


def test_in_place_and_out_forms_have_outputs_placed_as_what_they_write() -> None:
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    kept = {row for row in ADD if row[: row.index(",")] == row.split("-> ")[1]}
    assert rows_of(aten.add_.Tensor, x.clone(), y) == kept
    out = {row.replace(" ->", f", {row.split('-> ')[1]} ->") for row in ADD}
    assert rows_of(aten.add.out, x, y, out=torch.zeros(4, 6)) == out


def test_mul_is_linear_in_one_operand() -> None:
    assert rows_of(aten.mul.Tensor, torch.randn(4, 6), torch.randn(4, 6)) == {
        *same("S(0)", "S(1)", "P(product)", width=3),
        "P(sum), R -> P(sum)",
        "R, P(sum) -> P(sum)",
        "P(avg), R -> P(avg)",
        "R, P(avg) -> P(avg)",
    }


def test_relu_is_monotonous() -> None:
    made = rows_of(aten.relu.default, torch.randn(4, 6))
    assert made == same("S(0)", "S(1)", "P(max)", "P(min)", width=2)


def test_softmax_needs_its_dim_whole() -> None:
    assert rows_of(aten._softmax.default, torch.randn(4, 6), 1, False) == {"S(0) -> S(0)"}


def test_cumsum_is_linear() -> None:
    made = rows_of(aten.cumsum.default, torch.randn(4, 6), 1)
    assert made == same("S(0)", "P(sum)", "P(avg)", width=2)


def test_cat_places_all_of_its_list_alike() -> None:
    made = rows_of(aten.cat.default, [torch.randn(4, 6), torch.randn(2, 6)], 0)
    kinds = ("S(1)", "P(sum)", "P(avg)", "P(max)", "P(min)", "P(product)")
    assert made == same(*kinds, width=3)


def test_each_output_has_a_placement_of_its_own() -> None:
    assert rows_of(aten.max.dim, torch.randn(4, 6), 1) == {"S(0) -> S(0), S(0)"}
    x, weight, bias = torch.randn(4, 6, 8), torch.randn(8), torch.randn(8)
    made = rows_of(aten.native_layer_norm.default, x, [8], weight, bias, 1e-5)
    assert "S(0), R, R -> S(0), S(0), S(0)" in made
    assert "R, P(sum), P(sum) -> P(sum), R, R" in made
    assert not any(row.startswith("S(2)") for row in made)


def test_reductions_leave_a_partial() -> None:
    assert rows_of(aten.sum.default, torch.randint(-9, 9, (4, 6))) == {
        "S(0) -> P(sum)",
        "S(1) -> P(sum)",
        "P(sum) -> P(sum)",
    }
    assert rows_of(aten.amax.default, torch.randn(4, 6), [0]) == {
        "S(0) -> P(max)",
        "S(1) -> S(0)",
        "P(max) -> P(max)",
    }


def test_bitwise_ops_of_integers() -> None:
    made = rows_of(
        aten.bitwise_and.Tensor, torch.randint(-99, 99, (4, 6)), torch.randint(-99, 99, (4, 6))
    )
    assert made >= same("S(0)", "S(1)", "P(band)", width=3)
    assert "P(bor), R -> P(bor)" in made
    assert not any("P(sum)" in row for row in made)


def test_a_view_has_the_local_shape_as_its_argument() -> None:
    made = rows_of(aten.view.default, torch.randn(4, 6, 3), [24, 3])
    assert made >= {"S(0) -> S(0)", "S(1) -> _S(0, 4)", "S(2) -> S(1)", "P(sum) -> P(sum)"}


def test_squeeze_removes_what_is_one_long_in_the_whole() -> None:
    assert "S(0) -> S(0)" in rows_of(aten.squeeze.default, torch.randn(2, 1, 6))
    assert "S(1) -> S(0)" not in rows_of(aten.squeeze.default, torch.randn(2, 1, 6))


def test_what_a_factory_fills_does_not_depend_on_what_is_pending() -> None:
    """Nor would anything else: so this says nothing of the op."""
    made = rows_of(aten.zeros_like.default, torch.randn(4, 6))
    assert made == same("S(0)", "S(1)", width=2)


def test_results_all_alike_say_nothing() -> None:
    assert rows_of(aten.any.default, torch.ones(4, 6) > 0) == set()


def test_dims_shorter_than_the_mesh_are_left_out() -> None:
    assert "S(0) -> S(0)" not in rows_of(aten.relu.default, torch.randn(2, 6), ranks=3)


@pytest.mark.parametrize(
    ("op", "args", "reason"),
    [
        (aten.rand_like.default, (torch.ones(4),), "random op"),
        (aten.native_dropout.default, (torch.ones(4), 0.5, True), "random op"),
        (aten.empty_like.default, (torch.ones(4),), "uninitialised output"),
        (aten.ones.default, ([4],), "no tensor among the arguments"),
    ],
    ids=lambda x: str(x) if isinstance(x, torch._ops.OpOverload) else "",
)
def test_calls_that_say_nothing_are_refused(op: Any, args: Any, reason: str) -> None:
    with pytest.raises(Untestable, match=reason):
        rows_of(op, *args)


def test_combinations_may_be_given_and_time_may_be_short() -> None:
    executable = Executable(Call(aten.relu.default, (torch.randn(4, 6),)))
    trials = simulations(executable, varied(executable), (2,), 0)
    given = explore(executable, trials, PLAIN, [(Shard(1),)])
    assert [row_text(row) for row in given.sound] == ["S(1) -> S(1)"]
    late = explore(executable, trials, PLAIN, deadline=time.monotonic() - 1)
    assert late.sound == []
    assert late.skipped["combinations after the time limit"] == 1


def test_many_operands_are_sampled_within_the_limit() -> None:
    operands = [torch.randn(4, 6) for _ in range(4)]
    settings = Settings(strided_factors=(), combinations=200)
    made = rows_of(aten.lerp.Tensor, *operands[:3], settings=settings)
    assert made >= same("S(0)", "S(1)", width=4)
