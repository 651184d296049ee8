"""Who has an op of DTensors run in another way is found as by torch alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._library import simple_registry
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

import shardprop

from ..specs import S

MeshOf = Callable[..., DeviceMesh]
ADD_ = "aten::add_.Tensor"


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    shardprop.disable()


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The rule for `add_` goes again."""
    monkeypatch.setattr(shardprop._torch.dispatch_rules, "_is_any_registered", False)
    yield
    simple_registry.singleton.find(ADD_).torch_dispatch_rules._data.clear()


def placed(mesh: DeviceMesh) -> Any:
    return DTensor.from_local(torch.ones(2, 4), mesh, [S(0)], run_check=False)


def test_an_op_of_the_programs_own(mesh_of: MeshOf) -> None:
    x = placed(mesh_of(2))

    @torch.library.custom_op("shardprop_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def run(mode: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return args[0].detach()

    with shardprop.enabled():
        with pytest.raises(RuntimeError):
            twice(x)
        torch.library.register_torch_dispatch("shardprop_test::twice", DTensor, run)
        assert torch.equal(twice(x).to_local(), x.to_local())


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("step_of_rule", [0, 1, 2])
def test_ops_of_optimizer_steps(step_of_rule: int, mesh_of: MeshOf) -> None:
    mesh = mesh_of(2)
    weight = torch.nn.Parameter(placed(mesh))
    weight.grad = placed(mesh)
    optimizer = torch.optim.SGD([weight], lr=0.1, foreach=False)
    ran: list[Any] = []

    def run(mode: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        ran.append(func)
        return args[0]

    def register() -> None:
        torch.library.register_torch_dispatch(ADD_, DTensor, run)

    if step_of_rule == 0:
        register()
    with shardprop.enabled():
        for step in range(4):
            if step == step_of_rule > 0:
                register()
            optimizer.step()
    assert len(ran) == 4 - step_of_rule
