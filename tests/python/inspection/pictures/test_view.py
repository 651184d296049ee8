"""What is drawn of a layout, before anything draws it."""

from __future__ import annotations

import pytest

from shardprop import Layout, ShardpropError
from shardprop.inspection.report.colours import NEUTRAL, rank_colour, step_colour
from shardprop.inspection.report.subject import Subject, subject_of_layout
from shardprop.inspection.report.view import View, drawn_dims, ranks_text, view_of
from shardprop.inspection.words import bytes_text, us_text

from ...specs import SS, P, R, S


def subject(placements, shape, mesh_shape, names=None) -> Subject:
    return subject_of_layout(Layout(placements, ()), shape, mesh_shape, names)


def view(*args, dims=None) -> View:
    given = subject(*args)
    return view_of(given, drawn_dims([given], dims))


def test_the_ranks_that_hold_the_same_block_share_a_cell() -> None:
    found = view((S(0), R), (8, 4), (2, 2), ("dp", "tp"))
    assert [cell.ranks for cell in found.cells] == [(0, 1), (2, 3)]
    assert [cell.who for cell in found.cells] == ["dp 0, tp *", "dp 1, tp *"]
    assert [cell.boxes for cell in found.cells] == [(((0, 4), (0, 4)),), (((4, 8), (0, 4)),)]
    assert found.notes == ["dotted: the same on all ranks along tp"]


def test_a_strided_block_is_drawn_in_pieces() -> None:
    found = view((SS(0, 2),), (8, 3), (2,))
    assert found.cells[0].boxes == (((0, 2), (0, 3)), ((4, 6), (0, 3)))


def test_without_names_coordinates_are_in_brackets() -> None:
    assert view((S(0), R), (8, 4), (2, 2)).cells[1].who == "(1, *)"


def test_a_pending_sum_says_over_what() -> None:
    assert view((P, R), (8, 4), (2, 1), ("dp", "tp")).notes == [
        "striped: P(sum) over dp still to be reduced"
    ]


def test_a_tensor_of_one_dim_is_a_strip() -> None:
    found = view((S(0),), (6,), (3,))
    assert found.dims == (None, 0) and found.sizes == (1, 6)
    assert [cell.boxes for cell in found.cells] == [
        (((0, 1), (0, 2)),),
        (((0, 1), (2, 4)),),
        (((0, 1), (4, 6)),),
    ]


def test_dims_that_are_cut_are_drawn_and_the_others_named() -> None:
    found = view((S(1), S(2)), (512, 4, 6), (2, 2))
    assert found.dims == (1, 2)
    assert found.notes == ["tensor dim 0 (size 512) is not drawn"]
    of_two = view((S(1), S(2)), (512, 4, 6), (2, 2), dims=(0, 2))
    assert [cell.ranks for cell in of_two.cells] == [(0, 2), (1, 3)]
    assert of_two.notes == [
        "tensor dim 1 (size 4) is not drawn, and is cut: the ranks of a block hold parts of it"
    ]


def test_of_too_many_blocks_neighbours_are_drawn_as_one() -> None:
    given = subject((S(0), S(1)), (16, 16), (4, 8), ("dp", "tp"))
    found = view_of(given, (0, 1), most=8)
    # Four blocks in a row of the tensor, half of the eight.
    assert [cell.boxes for cell in found.cells[:2]] == [
        (((0, 4), (0, 8)),),
        (((0, 4), (8, 16)),),
    ]
    assert [cell.ranks for cell in found.cells] == [tuple(range(r, r + 4)) for r in range(0, 32, 4)]
    assert found.remarks == ("32 blocks are drawn as 8: the ranks of one hold parts of it",)
    by_column = view_of(subject((S(1), S(0)), (16, 16), (4, 8)), (0, 1), most=4)
    assert [cell.boxes for cell in by_column.cells] == [
        (((0, 16), (4 * column, 4 * column + 4)),) for column in range(4)
    ]


def test_dims_that_are_not_there_are_refused() -> None:
    given = subject((S(0),), (4, 4), (2,))
    for dims in ((2,), (0, 0), (0, 1, 2)):
        with pytest.raises(ShardpropError, match="dims: Expected one or two of the tensor dims"):
            drawn_dims([given], dims)


def test_ranks_that_hold_nothing_are_named() -> None:
    assert view((S(0),), (3, 2), (4,)).notes == ["nothing is left for rank 3"]


def test_names_for_another_mesh_are_refused() -> None:
    with pytest.raises(ShardpropError, match="mesh_dim_names: Expected one for each of 2"):
        subject((S(0), R), (4,), (2, 2), ("dp",))


def test_every_rank_has_a_colour_of_its_own() -> None:
    for mesh_shape in ((8,), (20,), (2, 4), (4, 2, 2)):
        every: list[tuple[int, ...]] = [()]
        for size in mesh_shape:
            every = [(*at, index) for at in every for index in range(size)]
        colours = {rank_colour(at, mesh_shape, range(len(mesh_shape))) for at in every}
        assert len(colours) == len(every)
    assert rank_colour((0, 1), (2, 2), ()) == NEUTRAL


def test_dark_text_is_readable_on_every_block() -> None:
    """A contrast of 4.5 at least, as WCAG 2.1 asks for text."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for hue in range(8):
        for tint in range(4):
            fill = luminance(rank_colour((hue, tint), (8, 4), (0, 1)))
            assert (fill + 0.05) / (luminance("#1b1f24") + 0.05) >= 4.5


def test_local_steps_are_grey() -> None:
    assert step_colour("chunk") == step_colour("zero_fill") != step_colour("all_gather")


def test_words() -> None:
    assert bytes_text(1010 << 10) == "1010 KiB"
    assert [bytes_text(n) for n in (0, 512, 1536, 3 << 20, 5 << 30, 2 << 40)] == [
        "0 B",
        "512 B",
        "1.5 KiB",
        "3 MiB",
        "5 GiB",
        "2 TiB",
    ]
    assert [us_text(us) for us in (0.0, 12.345, 1234.0, 2.5e6, float("inf"))] == [
        "0 us",
        "12.3 us",
        "1.23 ms",
        "2.5 s",
        "impossible",
    ]
    assert ranks_text((0, 1, 2, 3, 8)) == "0-3, 8"
    assert ranks_text((0, 1)) == "0, 1"
    assert ranks_text(tuple(range(0, 20, 2))) == "0, 2, … 18 (10)"
