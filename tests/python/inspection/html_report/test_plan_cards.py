"""The plans on the page: their pictures are those of the layouts, which `geometry` cuts."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
import torch
from torch.distributed.tensor import distribute_tensor

import shardprop
from shardprop import Layout, Step
from shardprop.inspection.report import page
from shardprop.inspection.report.plan_picture import draw_steps
from shardprop.inspection.report.subject import subject_of_layout

from ...specs import SS, P, R, S
from .sample import large, layout, place, redistribution, small, step, trace_of

MESH = ((2, 3), ("a", "b"))


def cards_of(trace: dict[str, Any]) -> list[str]:
    return re.findall(r'<article class="plan">.*?</article>', page(trace), re.S)


def svg_of(card: str) -> str:
    (found,) = re.findall(r"<svg.*?</svg>", card, re.S)
    ET.fromstring(found)
    return str(found)


def words_of(card: str) -> list[str]:
    """Head, tensor, costs, users, and what stands in the place of a picture."""
    return [html.unescape(text) for text in re.findall(r">([^<]+)<", card.partition("<svg")[0])]


@pytest.mark.parametrize(
    "placements, texts",
    [
        ((S(0), S(1)), ("S(0)", "S(1)")),
        ((SS(0, 2), R), ("_S(0, 2)", "R")),
        ((S(1), P), ("S(1)", "P(sum)")),
        ((S(0), S(0)), ("S(0)", "S(0)")),
    ],
)
@pytest.mark.parametrize("shape", [(10, 7), (2, 7), (0, 4)], ids=str)
def test_a_card_has_the_picture_of_its_layouts(placements, texts, shape) -> None:
    before = layout(*texts)
    moved = step("all_gather", [0, 1], before, layout("R", "R"))
    trace = trace_of([MESH], [place("", 1)], [], [redistribution([moved], shape=list(shape))], [])
    (card,) = cards_of(trace)
    order = tuple((dim, tuple(mesh_dims)) for dim, mesh_dims in before["shard_order"])
    layouts = (Layout(placements, order), Layout((R, R), ()))
    subjects = [subject_of_layout(each, shape, *MESH) for each in layouts]
    gathered = Step("all_gather", (0, 1), *layouts, 12.5, 0.0, 4096, 8192)
    assert svg_of(card) == draw_steps(subjects, [gathered]).svg


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
def test_small_tensors_can_be_drawn(shape) -> None:
    moved = step("all_reduce", [0], layout("P(sum)"), layout("R"))
    moves = [redistribution([moved], shape=list(shape))]
    trace = trace_of([((2,), ("dp",))], [place("", 1)], [], moves, [])
    assert svg_of(cards_of(trace)[0]).count('class="frame"') == 2


def test_the_picture_of_a_traced_plan_is_the_plans_own(mesh_of) -> None:
    with shardprop.trace() as trace:
        tensor = distribute_tensor(torch.zeros(12, 7), mesh_of(2, 3), [S(0), S(0)])
        tensor.redistribute(placements=[S(1), R])
    (moved,) = trace.redistributions
    assert moved.plan is not None and len(moved.plan.steps) > 1
    (card,) = cards_of(trace.to_json())

    def drawn(svg: str) -> list[str]:
        """Blocks, their colours and who holds them, wherever on the sheet they are."""
        return re.findall(r'(h[\d.]+v[\d.]+h-[\d.]+z" fill="#.{6}"><title>.*?)</title>', svg)

    assert len(drawn(svg_of(card))) > 6
    assert drawn(svg_of(card)) == drawn(moved.plan.plot().svg)


@pytest.mark.slow
def test_of_many_blocks_neighbours_are_drawn_as_one() -> None:
    picture = svg_of(cards_of(large())[0])
    assert "256 blocks are drawn as 64: the ranks of one hold parts of it" in picture


def test_a_redistribution_without_layouts_to_draw_says_so() -> None:
    cards = [words_of(card) for card in cards_of(small()) if "<svg" not in card]
    assert [(text, tensor, note) for text, tensor, _, _, note in cards] == [
        ("S(0)R → RR", "float32 ['s0', 4] on mesh dp=2, tp=2", "its layouts cannot be drawn"),
        ("QR → RR", "float32 [64, 64] on mesh dp=2, tp=2", "its layouts cannot be drawn"),
    ]


def test_users_of_one_plan_are_named_and_the_rest_counted() -> None:
    each = [
        redistribution(small()["redistributions"][0]["steps"], place=index) for index in range(6)
    ]
    places = [place(f"layer{index}", index + 1) for index in range(6)]
    (card,) = cards_of(trace_of([((2, 2), ("a", "b"))], places, [], each, []))
    _, _, costs, users = words_of(card)
    assert costs == "12.5 us each, 6 times, 4 KiB sent by a rank"
    assert len(users.split(" · ")) == 5
    assert users.split(" · ")[0] == "aten.mm.default, operand mat2 (model.py:1)"
    assert users.split(" · ")[-1] == "2 more"


def test_the_plans_that_cost_most_come_first() -> None:
    costs = [words_of(card)[2].split(", ")[:2] for card in cards_of(small())]
    assert costs[:2] == [["50 us each", "1 time"], ["12.5 us each", "3 times"]]
