"""Pictures as SVG: what is on them, and that they stand alone."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec

import shardprop
from shardprop import Layout, ShardpropError, Step
from shardprop.inspection.report import landscape
from shardprop.inspection.report.colours import OPERANDS
from shardprop.inspection.report.plan_picture import draw_steps
from shardprop.inspection.report.subject import subject_of_layout
from shardprop.support.picture import Picture

from ...specs import SS, P, R, S, spec_of

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def named(process_group: None) -> DeviceMesh:
    return init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))


def parsed(picture: Picture) -> ET.Element:
    """The root; all of it lies on the sheet, and asks for no other file."""
    root = ET.fromstring(picture.svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["x"]) <= width and 0 <= float(text.attrib["y"]) <= height
    for path in root.iter(f"{SVG}path"):
        for x, y in re.findall(r"M([\d.-]+) ([\d.-]+)", path.attrib["d"]):
            assert 0 <= float(x) <= width and 0 <= float(y) <= height
    named = {name for each in root.iter() for name in each.attrib}
    assert not named & {"href", "style", "id", "src"} and "url(" not in picture.svg
    return root


def texts(picture: Picture) -> list[str]:
    return [text.text or "" for text in parsed(picture).iter(f"{SVG}text")]


def of_class(picture: Picture, name: str) -> list[ET.Element]:
    return [each for each in parsed(picture).iter() if each.get("class") == name]


def blocks_of(picture: Picture) -> list[ET.Element]:
    return [path for group in of_class(picture, "blocks") for path in group]


def patterns(picture: Picture) -> list[str]:
    return [name for name in ("dots", "stripes") if of_class(picture, name)]


def box_of(path: ET.Element) -> tuple[float, float, float, float]:
    """Left, top, width and height of a shape that is one box."""
    found = re.fullmatch(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z", path.attrib["d"])
    assert found is not None
    left, top, width, height = map(float, found.groups())
    return left, top, width, height


def test_each_block_carries_its_rank() -> None:
    picture = Layout((S(0), S(1)), ()).plot((8, 16), (2, 2), mesh_dim_names=("dp", "tp"))
    assert {f"rank {rank}" for rank in range(4)} <= set(texts(picture))
    assert {"dp 0, tp 0", "dp 1, tp 1", "S(0)S(1)", "tensor dim 0"} <= set(texts(picture))
    assert "[8, 16] on mesh dp=2, tp=2" in texts(picture)
    assert patterns(picture) == []
    (outline,) = of_class(picture, "frame")
    left, top, width, height = box_of(outline)
    assert [box_of(path) for path in blocks_of(picture)] == [
        (left + x * width / 2, top + y * height / 2, width / 2, height / 2)
        for y in (0, 1)
        for x in (0, 1)
    ]
    tips = [title.text for title in parsed(picture).iter(f"{SVG}title")]
    assert tips[0] == "rank 0: dp 0, tp 0"


def test_a_picture_is_saved_and_shown_in_a_notebook(tmp_path) -> None:
    picture = Layout((S(0),), ()).plot((8,), (2,), mesh_dim_names=("größe",))
    picture.save(tmp_path / "layout.svg")
    assert (tmp_path / "layout.svg").read_text(encoding="utf-8") == picture.svg
    assert picture._repr_svg_() == picture.svg
    assert repr(picture) == "Picture()"
    with pytest.raises(ShardpropError, match=r"Expected a file that ends in .svg, got '.*x.png'"):
        picture.save(tmp_path / "x.png")


def test_names_are_no_markup() -> None:
    name = "</svg><script>alert(1)</script>"
    picture = Layout((S(0),), ()).plot((8,), (2,), mesh_dim_names=(name,))
    assert f"[8] on mesh {name}=2" in texts(picture)


def test_copies_are_dotted_and_partials_striped() -> None:
    assert patterns(Layout((S(0), R), ()).plot((8, 16), (2, 2))) == ["dots"]
    assert patterns(Layout((S(0), P), ()).plot((8, 16), (2, 2))) == ["stripes"]
    assert patterns(Layout((R, P), ()).plot((8, 16), (2, 2))) == ["dots", "stripes"]


@pytest.mark.parametrize("shape", [(), (5,), (0, 4), (3, 5, 7), (4096, 4)], ids=str)
def test_a_tensor_of_any_shape_can_be_drawn(shape) -> None:
    placement = S(0) if shape else R
    picture = Layout((placement, R), ()).plot(shape, (4, 2))
    assert f"{list(shape)} on mesh 4x2" in texts(picture)


def test_a_large_mesh_is_drawn_with_what_fits() -> None:
    picture = Layout((S(0), S(1)), ()).plot((512, 512), (32, 32))
    assert len(blocks_of(picture)) == 32 * 32


def test_a_dtensor_is_drawn_as_its_spec(named) -> None:
    spec = spec_of(named, (8, 8), (SS(0, 4), S(0)))
    of_spec = texts(shardprop.plot_layout(spec))
    tensor = DTensor(torch.empty(1, 8), spec, requires_grad=False)
    assert texts(shardprop.plot_layout(tensor)) == of_spec
    assert "S(0)[1]S(0)[0]" in of_spec
    kept = spec_of(named, (8, 8), (SS(0, 4), S(0)), strided_is_order=False)
    assert "_S(0, 4)[0]S(0)[1]" in texts(shardprop.plot_layout(kept))


def test_what_cannot_be_drawn_is_refused(named) -> None:
    with pytest.raises(ShardpropError, match="Expected a DTensor or a DTensorSpec to draw, got a "):
        shardprop.plot_layout(torch.empty(3))
    with pytest.raises(ShardpropError, match="spec with tensor_meta to draw"):
        shardprop.plot_layout(DTensorSpec(named, (R, R)))


def test_a_plan_shows_each_step_with_its_price(named) -> None:
    plan = shardprop.plan(
        spec_of(named, (1024, 512), (S(0), S(0))),
        spec_of(named, (1024, 512), (S(1), S(0))),
        policy="torch",
    )
    assert [step.kind for step in plan.steps] == ["all_gather", "all_to_all", "chunk"]
    picture = plan.plot()
    found = texts(picture)
    assert {"all_gather", "all_to_all", "chunk", "over tp", "over dp"} <= set(found)
    assert {"S(0)[0]S(0)[1]", "S(0)R", "S(1)R", "S(1)S(0)", "768 KiB", "512 KiB"} <= set(found)
    assert "S(0)[0]S(0)[1] → S(1)S(0)" in found
    assert len(of_class(picture, "arrow")) == 3 and len(of_class(picture, "frame")) == 4


def test_a_plan_of_many_steps_goes_on_in_the_next_row(named) -> None:
    layouts = [Layout((S(step % 2), R), ()) for step in range(6)]
    subjects = [subject_of_layout(layout, (8, 8), (2, 4)) for layout in layouts]
    steps = [
        Step("all_to_all", (0,), before, after, 1.0, 0.0, 8, 8)
        for before, after in pairwise(layouts)
    ]
    frames = [box_of(frame) for frame in of_class(draw_steps(subjects, steps), "frame")]
    assert len({top for _, top, _, _ in frames}) == 2
    assert [left for left, *_ in frames[4:]] == [left for left, *_ in frames[:2]]


def test_a_plan_without_steps_shows_the_layout(named) -> None:
    spec = spec_of(named, (8, 8), (S(0), R))
    found = texts(shardprop.plan(spec, spec, policy="torch").plot())
    assert "[8, 8] on mesh dp=2, tp=4: nothing to do" in found


def explained(*prices: tuple[float, float], considered: int | None = None) -> Any:
    candidates = tuple(
        SimpleNamespace(
            place=place,
            outputs=((S(0), R), None),
            operands=((S(0), R), (R, S(1))),
            operand_us=of_operands,
            us=sum(of_operands),
        )
        for place, of_operands in enumerate(prices)
    )
    return SimpleNamespace(
        op="aten.mm.default",
        operands=(SimpleNamespace(name="self"), SimpleNamespace(name="mat2")),
        candidates=candidates,
        considered=len(prices) if considered is None else considered,
        reason="first of equal cost",
    )


def test_the_landscape_stacks_operands_and_marks_winner_and_ties() -> None:
    picture = landscape(explained((10.0, 20.0), (0.0, 30.0), (40.0, 30.0), considered=9))
    found = texts(picture)
    assert [text for text in found if text[0].isdigit()][:3] == [
        "30 us ◀ chosen",
        "30 us = same cost",
        "70 us",
    ]
    bars = [(bar.attrib["fill"], box_of(bar)) for bar in of_class(picture, "bar")]
    scale = 400 / 70
    assert [(OPERANDS.index(fill), round(box[2] / scale, 1)) for fill, box in bars] == [
        (0, 10.0),
        (1, 20.0),
        (1, 30.0),
        (0, 40.0),
        (1, 30.0),
    ]
    start = bars[0][1][0]
    starts = [round((box[0] - start) / scale, 1) for fill, box in bars if fill == OPERANDS[1]]
    assert starts == [10.0, 0.0, 40.0]
    assert "S(0)R, RS(1) → S(0)R, -" in found
    assert "6 more strategies are not shown" in found
    assert len(of_class(picture, "swatch")) == 2 and {"self", "mat2"} <= set(found)


def test_the_axis_has_round_numbers() -> None:
    found = texts(landscape(explained((1000.0, 1600.0), (3000.0, 420.0))))
    ticks = ["0 us", "1 ms", "2 ms", "3 ms"]
    assert [text for text in found if text in ticks] == ticks


def test_impossible_strategies_are_crossed_out() -> None:
    picture = landscape(explained((1.0, 2.0), (math.inf, 3.0)))
    assert "impossible" in texts(picture)
    assert patterns(picture) == ["stripes"] and len(of_class(picture, "frame")) == 1
    assert len(of_class(picture, "bar")) == 2


def test_a_landscape_without_costs_has_no_bars() -> None:
    picture = landscape(explained((0.0, 0.0)))
    assert "0 us ◀ chosen" in texts(picture)
    assert of_class(picture, "bar") == of_class(picture, "swatch") == []


def test_a_decision_without_candidates_is_refused() -> None:
    with pytest.raises(ShardpropError, match="Expected a decision with candidates to draw"):
        landscape(explained())


@pytest.mark.slow
def test_importing_shardprop_imports_nothing_that_draws() -> None:
    code = (
        "import sys, shardprop\n"
        "found = {m for m in sys.modules if m.startswith('shardprop.inspection')}\n"
        "assert not found, found\n"
        "from torch.distributed.tensor import Shard\n"
        "from shardprop.model.plan_steps import Layout\n"
        "assert Layout((Shard(0),), ()).plot((8,), (2,)).svg.startswith('<svg')\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
