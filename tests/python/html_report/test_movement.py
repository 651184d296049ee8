"""Plans as the page draws them: the blocks are those of the geometry, which is torch's."""

from __future__ import annotations

from typing import Any

import pytest

from shardprop import Layout
from shardprop.inspection.report import blocks
from shardprop.inspection.report.movement import movement

from ..specs import SS, P, R, S
from .sample import layout, ranks_of, step


def mesh(shape: tuple[int, ...], names: str) -> dict[str, Any]:
    return {"shape": list(shape), "dim_names": names.split(), "ranks": ranks_of(shape)}


def one_step(shape, on, before, after, mesh_dims) -> dict[str, Any]:
    return movement(on, list(shape), [step("all_gather", mesh_dims, before, after)])


@pytest.mark.parametrize(
    "placements, texts",
    [
        ((S(0), S(1)), ("S(0)", "S(1)")),
        ((SS(0, 2), R), ("_S(0, 2)", "R")),
        ((S(1), P), ("S(1)", "P(sum)")),
        ((S(0), S(0)), ("S(0)", "S(0)")),
    ],
)
def test_each_rank_is_drawn_with_the_block_that_it_holds(placements, texts) -> None:
    shape = (10, 7)
    drawn = one_step(shape, mesh((2, 3), "a b"), layout(*texts), layout("R", "R"), [0])
    frame = drawn["frames"][0]
    for block in blocks(Layout(placements, ()), shape, (2, 3)):
        cell = frame["of"][drawn["grid"]["ranks"].index(block.rank)]
        boxes = [] if cell is None else frame["cells"][cell]
        assert [((t, b), (l, r)) for t, b, l, r in boxes] == list(block.boxes)  # noqa: E741
    assert drawn["frames"][1]["cells"] == [[[0, 10, 0, 7]]]
    assert frame["pending"] == (P in placements)


def test_the_paint_covers_the_tensor_once() -> None:
    drawn = one_step(
        (12, 8), mesh((2, 2), "a b"), layout("_S(0, 3)", "S(1)"), layout("R", "R"), [0]
    )
    covered = [
        (row, column)
        for _, top, bottom, left, right in drawn["paint"]
        for row in range(top, bottom)
        for column in range(left, right)
    ]
    assert sorted(covered) == [(row, column) for row in range(12) for column in range(8)]
    assert len({colour for colour, *_ in drawn["paint"]}) == 4


def test_the_finest_layout_gives_the_colours() -> None:
    drawn = one_step((8, 8), mesh((2, 2), "a b"), layout("P(sum)", "R"), layout("S(1)", "R"), [0])
    assert [box for _, *box in drawn["paint"]] == [[0, 8, 0, 4], [0, 8, 4, 8]]


def test_the_first_mesh_dims_go_down_the_page() -> None:
    drawn = one_step(
        (8, 8), mesh((2, 2, 2), "dp sp tp"), layout("S(0)", "R", "R"), layout(*"RRR"), [0]
    )
    assert drawn["grid"]["rows"] == ["dp 0", "dp 1"]
    assert drawn["grid"]["columns"][1] == ["sp 0", "tp 1"]
    assert drawn["grid"]["ranks"] == list(range(8))


def test_a_mesh_without_names_is_labelled_with_coordinates() -> None:
    drawn = one_step((8,), mesh((3,), "0"), layout("S(0)"), layout("R"), [0])
    assert drawn["grid"] == {"rows": [""], "columns": [["0"], ["1"], ["2"]], "ranks": [0, 1, 2]}


def test_a_long_mesh_dim_goes_on_in_the_next_row() -> None:
    drawn = one_step((32,), mesh((20,), "dp"), layout("S(0)"), layout("R"), [0])
    assert drawn["grid"]["rows"] == ["", "", ""] and len(drawn["grid"]["columns"]) == 8
    assert drawn["grid"]["ranks"] == list(range(20))


def test_of_many_ranks_some_are_drawn_and_the_note_says_which() -> None:
    shape = (4, 32, 8)
    before, after = layout("R", "S(0)", "S(1)"), layout("R", "R", "S(1)")
    drawn = one_step((64, 64), mesh(shape, "pp dp tp"), before, after, [1])
    assert drawn["notes"] == ["drawn at pp 0 of 4", "drawn at tp 0 of 8"]
    assert drawn["grid"]["ranks"] == list(range(0, 32 * 8, 8))
    both = one_step((64, 64), mesh(shape, "pp dp tp"), before, layout(*"RRR"), [1, 2])
    assert both["notes"] == ["drawn at pp 0 of 4", "drawn at 4 of 32 along dp"]
    assert both["grid"]["rows"] == ["dp 0", "dp 10", "dp 20", "dp 31"]
    assert len(both["paint"]) == 64  # bands, as there are more blocks than can be told apart


def test_an_empty_rank_holds_no_block() -> None:
    drawn = one_step((3,), mesh((4,), "dp"), layout("S(0)"), layout("R"), [0])
    assert drawn["frames"][0]["of"] == [0, 1, 2, None]


@pytest.mark.parametrize("shape", [(), (0, 4), (1,)], ids=str)
def test_small_tensors_can_be_drawn(shape) -> None:
    drawn = one_step(shape, mesh((2,), "dp"), layout("P(sum)"), layout("R"), [0])
    assert len(drawn["frames"]) == 2 and min(drawn["sizes"]) >= 1
