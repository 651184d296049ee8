"""Who has an op of DTensors run in another way is found as by torch alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

import shardprop
from shardprop._torch.dispatch_rules import has_dispatch_rules

from ..specs import S

MeshOf = Callable[..., DeviceMesh]
ADD_ = "aten::add_.Tensor"


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    shardprop.disable()


@contextmanager
def rules_of(namespace: str) -> Iterator[torch.library.Library]:
    """A library whose rules go with it."""
    with torch.library._scoped_library(namespace, "FRAGMENT") as library:
        yield library
        assert has_dispatch_rules()
    assert not has_dispatch_rules()


def placed(mesh: DeviceMesh) -> Any:
    return DTensor.from_local(torch.ones(2, 4), mesh, [S(0)], run_check=False)


def test_an_op_of_the_programs_own(mesh_of: MeshOf) -> None:
    x = placed(mesh_of(2))

    def run(mode: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return args[0].detach()

    with shardprop.enabled(), rules_of("shardprop_test") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        twice = torch.ops.shardprop_test.twice
        with pytest.raises(RuntimeError):
            twice(x)
        torch.library.register_torch_dispatch("shardprop_test::twice", DTensor, run, lib=library)
        assert torch.equal(twice(x).to_local(), x.to_local())


@pytest.mark.parametrize("step_of_rule", [0, 1, 2])
def test_ops_of_optimizer_steps(step_of_rule: int, mesh_of: MeshOf) -> None:
    weight = torch.nn.Parameter(placed(mesh_of(2)))
    weight.grad = placed(mesh_of(2))
    optimizer = torch.optim.SGD([weight], lr=0.1, foreach=False)
    ran: list[Any] = []

    def run(mode: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        ran.append(func)
        return args[0]

    with rules_of("aten") as library:

        def register() -> None:
            torch.library.register_torch_dispatch(ADD_, DTensor, run, lib=library)

        if step_of_rule == 0:
            register()
        with shardprop.enabled():
            for step in range(4):
                if step == step_of_rule > 0:
                    register()
                optimizer.step()
    assert len(ran) == 4 - step_of_rule
