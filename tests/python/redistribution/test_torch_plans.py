"""What torch's planner is asked where the core has no price."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial
from torch.distributed.tensor._collective_utils import redistribute_cost

import shardprop
from shardprop import ShardpropError, _core
from shardprop.redistribution import torch_plans
from shardprop.support.stats import Recorder

from .. import specs
from ..specs import SS, R, S
from ..symbolic import Symbols, spec_of


def test_a_symbolic_price_that_we_have_not_is_left_to_torch_and_counted(
    mesh_of: Callable[..., DeviceMesh], monkeypatch: pytest.MonkeyPatch
) -> None:
    def declined(*_: object) -> object:
        raise _core.Unsupported("test reason")

    mesh, symbols = mesh_of(4), Symbols()
    size = symbols.backed("size", 64)
    with symbols.mode:
        ends = [spec_of(mesh, (size, 8), [placement]) for placement in (S(0), R)]
    monkeypatch.setattr(torch_plans, "symbolic_cost", declined)
    with pytest.raises(TypeError, match="unhashable type: non-nested SymInt"):
        redistribute_cost(*ends)
    shardprop.reset_stats()
    with (
        shardprop.enabled(),
        pytest.raises(TypeError, match="unhashable type: non-nested SymInt"),
    ):
        shardprop.redistribute_cost(*ends)
    assert shardprop.stats().price_fallbacks["test reason"] == 1


def test_where_torch_finds_no_path_its_error_is_ours(mesh_of: Callable[..., DeviceMesh]) -> None:
    mesh = mesh_of(2, 2)
    view = specs.spec_of(mesh, (8, 8), (R, SS(0, 2)), strided_is_order=False)
    mixed = specs.spec_of(mesh, (8, 8), (Partial("max"), Partial("product")))
    for cost in (redistribute_cost, shardprop.redistribute_cost):
        with pytest.raises(AssertionError, match=r"No path found from src_state R_S\(0, 2\)"):
            cost(view, mixed)


def test_a_plan_of_specs_that_we_do_not_model_is_refused(
    mesh_of: Callable[..., DeviceMesh],
) -> None:
    mesh, symbols = mesh_of(4), Symbols()
    size = symbols.backed("size", 64)
    with symbols.mode:
        ends = [spec_of(mesh, (size, 8), [placement]) for placement in (S(0), R)]
    with pytest.raises(ShardpropError, match=r"specs that the core models, got a symbolic shape\."):
        shardprop.plan(*ends)


def test_prices_outside_of_a_decision_share_no_history() -> None:
    """Not even in a thread that has decided nothing yet."""
    planner = torch_plans.TorchPlanner(Recorder())
    assert planner._history() is not planner._history()
