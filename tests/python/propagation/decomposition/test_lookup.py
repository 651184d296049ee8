"""Which inputs a call takes as they are, by a look into its rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from shardprop.propagation.decomposition.lookup import RowTable

from ...narrow import rows_rule
from ...specs import SS, P, R, S

aten = torch.ops.aten
SQUARE = (8, 8)


def table(op: Any, rows: list[list[Any]], *shapes: tuple[int, ...]) -> RowTable:
    return RowTable(op, rows_rule(op), rows, 1, shapes)


def test_an_output_may_be_placed_otherwise_than_the_first_input() -> None:
    found = table(aten.mm.default, [[P, S(1), S(0)], [S(0), S(0), R]], SQUARE, SQUARE)
    assert found.outputs((S(1), S(0))) == (P,)
    assert found.outputs((S(0), R)) == (S(0),)
    assert found.outputs((S(0), S(0))) is None


def test_what_is_written_in_place_keeps_its_placement() -> None:
    rows: list[list[Any]] = [[S(0), S(0), S(0)], [P, R, P], [R, R, S(1)]]
    found = table(aten.add_.Tensor, rows, SQUARE, SQUARE)
    assert found.outputs((S(0), S(0))) == (S(0),)
    assert found.outputs((R, S(1))) == (R,)
    assert found.outputs((R, P)) is None


def test_a_dim_without_elements_is_not_cut() -> None:
    found = table(aten.mm.default, [[S(0), S(0), R]], (0, 8), SQUARE)
    assert found.outputs((S(0), R)) is None


def test_rows_with_strided_shards_or_a_filter_are_left_to_the_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[list[Any]] = [[P, S(1), S(0)], [S(0), S(0), R]]
    assert table(aten.mul.Tensor, rows, SQUARE, SQUARE).knows((S(1), S(0)))
    strided: list[Any] = [SS(0, 2), SS(0, 2), R]
    assert not table(aten.mul.Tensor, [*rows, strided], SQUARE, SQUARE).knows((S(1), S(0)))
    rule = rows_rule(aten.mul.Tensor)
    monkeypatch.setattr(rule, "accepts", lambda *_: True)
    filtered = RowTable(aten.mul.Tensor, rule, rows, 1, (SQUARE, SQUARE))
    assert not filtered.knows((S(1), S(0)))
