"""Ops whose arguments hold sizes give what they give with torch, by arguments that are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

import shardprop

from ..narrow import sharded
from ..specs import R, S

MeshOf = Callable[..., DeviceMesh]

OPS: dict[str, Callable[[Any], Any]] = {
    "view": lambda x: x.view(-1, 3, 2),
    "reshape": lambda x: x.reshape(4, 2, 3),
    "expand": lambda x: x.unsqueeze(0).expand(3, -1, -1),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(0),
    "all ones squeezed": lambda x: x.unsqueeze(0).squeeze(),
    "unflatten": lambda x: x.unflatten(1, (2, 3)),
    "flatten": lambda x: x.unflatten(1, (2, 3)).flatten(1, 2),
    "repeat": lambda x: x.repeat(1, 2),
    "new_zeros": lambda x: x.new_zeros(4, 6),
    "new_full": lambda x: x.new_full((4, 6), 3.0),
    "moved, too": lambda x: x.view(2, 12),
    "random": lambda x: torch.nn.functional.dropout(x, 0.0),
    "no rewriting": lambda x: x.topk(2, 1)[0],
}


@pytest.fixture
def put_together(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The calls whose arguments torch has put together."""
    calls: list[Any] = []
    dispatcher = DTensor._op_dispatcher
    torchs = dispatcher.redistribute_local_args

    def counted(asked: Any, schema: Any, *rest: Any) -> None:
        calls.append(schema.op)
        torchs(asked, schema, *rest)

    monkeypatch.setattr(dispatcher, "redistribute_local_args", counted)
    yield calls
    shardprop.disable()


def operand(mesh: DeviceMesh, turn: int) -> DTensor:
    held = torch.arange(12.0).reshape(2, 6) + turn
    return DTensor.from_local(held, mesh, [S(0)], run_check=False)


def _storage(tensor: DTensor) -> int:
    return tensor.to_local().untyped_storage().data_ptr()


def outcome(op: Callable[[Any], Any], x: DTensor) -> Any:
    try:
        made = op(x)
    except Exception as error:
        return type(error), str(error)
    view = made._is_view(), made._base is x
    shares = (
        made.to_local().untyped_storage().data_ptr() == x.to_local().untyped_storage().data_ptr()
    )
    return made._spec, made.stride(), made.to_local().tolist(), view, shares, made._version


@pytest.mark.parametrize("name", OPS)
def test_results_are_those_of_torch(name: str, mesh_of: MeshOf) -> None:
    def outcomes() -> list[Any]:
        return [outcome(OPS[name], operand(mesh_of(2), turn)) for turn in range(3)]

    expected = outcomes()
    with shardprop.enabled():
        assert outcomes() == expected


def test_arguments_are_put_together_once(mesh_of: MeshOf, put_together: list[Any]) -> None:
    shardprop.enable()
    for turn in range(3):
        operand(mesh_of(2), turn).view(-1, 3, 2)
    assert put_together == []
    shardprop.disable()
    operand(mesh_of(2), 1).view(-1, 3, 2)
    assert put_together == [torch.ops.aten.view.default]


def test_written_views_are_written(mesh_of: MeshOf) -> None:
    with shardprop.enabled():
        for turn in range(3):
            x = operand(mesh_of(2), turn)
            x.view(-1, 3, 2).zero_()
            assert x.to_local().tolist() == [[0.0] * 6] * 2


def test_gradients_are_those_of_torch(mesh_of: MeshOf) -> None:
    def gradients() -> list[torch.Tensor]:
        made = []
        for turn in range(3):
            x = operand(mesh_of(2), turn).requires_grad_()
            (x.view(-1, 3, 2).sin().expand(-1, 3, 2).reshape(4, 6) * 2.0).sum().backward()
            assert isinstance(x.grad, DTensor)
            made.append(x.grad.to_local())
        return made

    expected = gradients()
    with shardprop.enabled():
        assert all(map(torch.equal, gradients(), expected))


def test_who_watches_sees_torchs_own_code(mesh_of: MeshOf, put_together: list[Any]) -> None:
    class Passing(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return NotImplemented if DTensor in types else func(*args, **(kwargs or {}))

    shardprop.enable()
    x = operand(mesh_of(2), 0)
    x.view(-1, 3, 2)
    with Passing():
        x.view(-1, 3, 2)
    assert put_together == [torch.ops.aten.view.default]


def test_a_rank_outside_of_the_mesh_runs_nothing(process_group: None) -> None:
    mesh = DeviceMesh("cpu", [1, 2])

    def outside() -> list[Any]:
        x = DTensor.from_local(torch.ones(2, 6), mesh, [R], run_check=False)
        made = [x.view(-1, 3, 2) for _ in range(2)]
        return [(each.shape, sharded(each).to_local().tolist()) for each in made]

    expected = outside()
    with shardprop.enabled():
        assert outside() == expected
