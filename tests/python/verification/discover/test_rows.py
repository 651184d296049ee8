"""Which rows say something that no other says."""

from __future__ import annotations

import pytest

from shardprop import _torch
from shardprop.rules.placeholder import ShardingPlaceholder
from shardprop.verification.discover.rows import cell_of, essential, implies, placement_of, show

from .seen import row


@pytest.mark.parametrize("cell", ["R", "S(0)", "S(3)", "P(sum)", "P(avg)"])
def test_cells_and_placements_are_each_others_inverse(cell: str) -> None:
    assert cell_of(placement_of(cell)) == cell


def test_placeholders_are_shards_and_strided_shards_have_no_word() -> None:
    assert cell_of(ShardingPlaceholder(1, even=True)) == "S(1)"
    assert cell_of(_torch.StridedShard(0, split_factor=2)) is None
    assert cell_of(None) == "-"


def test_a_replicated_operand_is_an_average_of_equal_values() -> None:
    strong, weak = row("P(avg), P(avg) -> P(avg)"), row("P(avg), R -> P(avg)")
    assert implies(strong, weak, 2)
    assert not implies(weak, strong, 2)


def test_a_replicated_operand_is_no_sum_of_equal_values() -> None:
    assert not implies(row("P(sum), P(sum) -> P(sum)"), row("P(sum), R -> P(sum)"), 2)


def test_essential_rows_imply_all_others() -> None:
    rows = map(row, ["P(max), P(max) -> P(max)", "P(max), R -> P(max)", "R, S(0) -> S(0)"])
    assert essential(rows, 2) == {row("P(max), P(max) -> P(max)"), row("R, S(0) -> S(0)")}


def test_of_several_outputs_the_strongest_is_kept() -> None:
    rows = map(row, ["S(0) -> P(max)", "S(0) -> P(sum)"])
    assert essential(rows, 1) == {row("S(0) -> P(sum)")}


def test_rows_are_shown_as_the_notation_writes_them() -> None:
    assert show(("S(0)", "", "R", "P(sum)"), 3) == "S(0), R -> P(sum)"
