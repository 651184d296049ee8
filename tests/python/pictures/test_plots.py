"""Pictures as matplotlib holds them: what is on them, and that nothing asks for a screen."""

from __future__ import annotations

import builtins
import math
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec

import shardprop
from shardprop import Layout, ShardpropError
from shardprop.inspection.report import landscape

from ..specs import SS, P, R, S, spec_of


@pytest.fixture(scope="module")
def named(process_group: None) -> DeviceMesh:
    return init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))


def texts(ax) -> list[str]:
    return [text.get_text() for text in ax.texts]


def hatches(ax) -> set[str]:
    return {str(patch.get_hatch() or "") for patch in ax.patches} - {""}


def saved(ax, path) -> bytes:
    ax.figure.savefig(path)
    return path.read_bytes()


def test_each_block_carries_its_rank(pyplot, tmp_path) -> None:
    ax = Layout((S(0), S(1)), ()).plot((8, 16), (2, 2), mesh_dim_names=("dp", "tp"))
    assert {f"rank {rank}" for rank in range(4)} <= set(texts(ax))
    assert {"dp 0, tp 0", "dp 1, tp 1", "S(0)S(1)", "tensor dim 0"} <= set(texts(ax))
    assert "[8, 16] on mesh dp=2, tp=2" in texts(ax)
    assert hatches(ax) == set()
    assert saved(ax, tmp_path / "layout.png").startswith(b"\x89PNG")


def test_copies_are_dotted_and_partials_striped(pyplot) -> None:
    assert hatches(Layout((S(0), R), ()).plot((8, 16), (2, 2))) == {".."}
    assert hatches(Layout((S(0), P), ()).plot((8, 16), (2, 2))) == {"////"}
    assert hatches(Layout((R, P), ()).plot((8, 16), (2, 2))) == {"..////"}


@pytest.mark.parametrize("shape", [(), (5,), (0, 4), (3, 5, 7), (4096, 4)], ids=str)
def test_a_tensor_of_any_shape_can_be_drawn(pyplot, tmp_path, shape) -> None:
    placement = S(0) if shape else R
    ax = Layout((placement, R), ()).plot(shape, (4, 2))
    assert f"{list(shape)} on mesh 4x2" in texts(ax)
    assert saved(ax, tmp_path / "layout.svg")


def test_a_large_mesh_is_drawn_with_what_fits(pyplot, tmp_path) -> None:
    ax = Layout((S(0), S(1)), ()).plot((512, 512), (32, 32))
    assert saved(ax, tmp_path / "layout.png")
    assert len(ax.patches) == 32 * 32 + 1


def test_a_dtensor_is_drawn_as_its_spec(pyplot, named) -> None:
    spec = spec_of(named, (8, 8), (SS(0, 4), S(0)))
    of_spec = texts(shardprop.plot_layout(spec))
    tensor = DTensor(torch.empty(1, 8), spec, requires_grad=False)
    assert texts(shardprop.plot_layout(tensor)) == of_spec
    assert "S(0)[1]S(0)[0]" in of_spec
    kept = spec_of(named, (8, 8), (SS(0, 4), S(0)), strided_is_order=False)
    assert "_S(0, 4)[0]S(0)[1]" in texts(shardprop.plot_layout(kept))


def test_an_axes_of_ones_own_is_drawn_on(pyplot, named) -> None:
    _, (left, right) = pyplot.subplots(1, 2)
    assert shardprop.plot_layout(spec_of(named, (8, 8), (S(0), R)), ax=left) is left
    plan = shardprop.plan(
        spec_of(named, (8, 8), (S(0), R)), spec_of(named, (8, 8), (R, R)), topology="h100-nvlink"
    )
    assert plan.plot(ax=right) is right
    assert left.patches and right.patches


def test_what_cannot_be_drawn_is_refused(pyplot, named) -> None:
    with pytest.raises(ShardpropError, match="Expected a DTensor or a DTensorSpec to draw, got a "):
        shardprop.plot_layout(torch.empty(3))
    with pytest.raises(ShardpropError, match="spec with tensor_meta to draw"):
        shardprop.plot_layout(DTensorSpec(named, (R, R)))
    with pytest.raises(ShardpropError, match="ax: Expected an Axes of matplotlib, got a int"):
        shardprop.plot_layout(spec_of(named, (8, 8), (S(0), R)), ax=3)


def test_a_plan_shows_each_step_with_its_price(pyplot, named, tmp_path) -> None:
    plan = shardprop.plan(
        spec_of(named, (1024, 512), (S(0), S(0))),
        spec_of(named, (1024, 512), (S(1), S(0))),
        policy="torch",
    )
    assert [step.kind for step in plan.steps] == ["all_gather", "all_to_all", "chunk"]
    ax = plan.plot()
    found = texts(ax)
    assert {"all_gather", "all_to_all", "chunk", "over tp", "over dp"} <= set(found)
    assert {"S(0)[0]S(0)[1]", "S(0)R", "S(1)R", "S(1)S(0)", "768 KiB", "512 KiB"} <= set(found)
    assert "S(0)[0]S(0)[1] → S(1)S(0)" in found
    arrows = [patch for patch in ax.patches if type(patch).__name__ == "FancyArrowPatch"]
    assert len(arrows) == 3
    assert saved(ax, tmp_path / "plan.png").startswith(b"\x89PNG")


def test_a_plan_without_steps_shows_the_layout(pyplot, named) -> None:
    spec = spec_of(named, (8, 8), (S(0), R))
    found = texts(shardprop.plan(spec, spec, policy="torch").plot())
    assert "[8, 8] on mesh dp=2, tp=4: nothing to do" in found


def explained(*prices: tuple[float, float], considered: int | None = None) -> SimpleNamespace:
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


def test_the_landscape_stacks_operands_and_marks_winner_and_ties(pyplot, tmp_path) -> None:
    ax = landscape(explained((10.0, 20.0), (0.0, 30.0), (40.0, 30.0), considered=9))
    assert texts(ax) == ["30 us  ◀ chosen", "30 us  = same cost", "70 us"]
    widths = [[bar.get_width() for bar in bars] for bars in ax.containers]
    assert widths == [[10.0, 0.0, 40.0], [20.0, 30.0, 30.0], []]
    starts = [bar.get_x() for bar in ax.containers[1]]
    assert starts == [10.0, 0.0, 40.0]
    assert ax.get_yticklabels()[0].get_text() == "S(0)R, RS(1) → S(0)R, none"
    assert "6 more strategies are not shown" in ax.get_xlabel()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["self", "mat2"]
    assert saved(ax, tmp_path / "landscape.png").startswith(b"\x89PNG")


def test_impossible_strategies_are_crossed_out(pyplot) -> None:
    ax = landscape(explained((1.0, 2.0), (math.inf, 3.0)))
    assert texts(ax)[1] == "impossible"
    assert hatches(ax) == {"xx"}


def test_a_landscape_without_costs_has_one_bar_of_none(pyplot, tmp_path) -> None:
    ax = landscape(explained((0.0, 0.0)))
    assert texts(ax) == ["0 us  ◀ chosen"]
    assert ax.get_legend() is None
    assert saved(ax, tmp_path / "landscape.png")


def test_a_decision_without_candidates_is_refused(pyplot) -> None:
    with pytest.raises(ShardpropError, match="Expected a decision with candidates to draw"):
        landscape(explained())


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch) -> None:
    plain = builtins.__import__

    def without(name: str, *args: object, **kwargs: object) -> object:
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ShardpropError, match=r"pip install 'shardprop\[plot\]'"):
        Layout((S(0),), ()).plot((8,), (2,))


def test_importing_shardprop_imports_no_pictures() -> None:
    code = (
        "import sys, shardprop\n"
        "costly = ('shardprop.inspection.report', 'matplotlib')\n"
        "found = {m for m in sys.modules if m.startswith(costly)}\n"
        "assert not found, found\n"
        "shardprop.plot_layout\n"
        "assert 'matplotlib' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
