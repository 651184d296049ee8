"""What a plan says that a rank holds, beside what a step allocates on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from shardprop import ShardpropError, graph

from ...erasure.allocated import allocated

MeshOf = Callable[..., DeviceMesh]
TOPOLOGY = "h100-nvlink"
R = Replicate()


class Wide(nn.Module):
    """Two layers whose tensors are large beside what ops allocate inside."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(256, 1024)
        self.down = nn.Linear(1024, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).relu().sigmoid()).square().mean()


def planned(mesh: DeviceMesh, **settings: Any) -> tuple[nn.Module, graph.ModelPlan]:
    model = Wide()
    x = torch.ones(512, 256)
    return model, graph.capture(model, (x,), mesh, topology=TOPOLOGY, **settings).solve()


SHARDED = {"up.weight": [R, Shard(0)], "down.weight": [R, Shard(1)]}
ROWS = [[Shard(0), R]]


@pytest.mark.parametrize("settings", [{}, {"parameters": SHARDED, "inputs": ROWS}], ids=str)
@pytest.mark.parametrize("recompute", [False, True])
def test_a_step_allocates_what_is_said(
    settings: dict[str, Any], recompute: bool, mesh_of: MeshOf
) -> None:
    model, plan = planned(mesh_of(2, 2), **settings)
    memory = plan.memory(recompute=recompute)
    plan.compile(model, recompute=recompute)
    x = torch.ones(512, 256)

    def step() -> torch.Tensor:
        loss: torch.Tensor = model(x)
        loss.backward()
        return loss

    step()
    model.zero_grad(set_to_none=True)
    loss, most = allocated(step)
    placed = memory.inputs if settings else 0  # a part of the input is a copy
    assert placed + max(memory.forward, memory.backward) == pytest.approx(most, rel=0.05)
    assert loss is not None


class Parts(Wide):
    """With a buffer that is written, and a layer that is not called."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Buffer(torch.zeros(512, 256))
        self.unused = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.down(self.up(x).relu())
        self.last.copy_(found.detach())
        return found.square().mean()


def test_what_is_there_all_the_time(mesh_of: MeshOf) -> None:
    model = Parts()
    x = torch.ones(512, 256)
    placements: dict[str, Any] = {**SHARDED, "unused.weight": [R, R]}
    found = graph.capture(model, (x,), mesh_of(2, 2), topology=TOPOLOGY, parameters=placements)
    plan = found.solve()
    memory = plan.memory(torch.optim.AdamW)
    plan.compile(model)
    model(x).backward()
    sharded = [p for p in model.parameters() if isinstance(p, DTensor)]
    optimizer = torch.optim.AdamW(sharded)
    optimizer.step()
    kept = [x for state in optimizer.state.values() for x in state.values()]
    assert memory.parameters == sum(map(held_of, sharded))
    assert memory.buffers == held_of(model.get_buffer("last"))
    assert memory.gradients == sum(held_of(p) for p in sharded if p.grad is not None)
    assert memory.optimizer == sum(map(held_of, kept))
    assert memory.held == sum([memory.parameters, memory.buffers, memory.inputs, memory.optimizer])
    plain = plan.memory(lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    assert plain.optimizer == 0


def held_of(tensor: torch.Tensor) -> int:
    held = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return held.numel() * held.itemsize


def test_buffers_that_are_written_are_let_go(mesh_of: MeshOf) -> None:
    model, x = Parts(), torch.ones(512, 256)
    plan = graph.capture(model, (x,), mesh_of(2, 2), topology=TOPOLOGY).solve()
    memory = plan.memory()
    plan.compile(model)
    model(x).backward()
    model.zero_grad(set_to_none=True)
    loss, most = allocated(lambda: backward_of(model(x)))
    assert max(memory.forward, memory.backward) == pytest.approx(most, rel=0.03)
    assert loss is not None


def backward_of(loss: torch.Tensor) -> torch.Tensor:
    loss.backward()
    return loss


class Scores(nn.Module):
    """Two outputs, of which each rank holds one number of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(256, 1)
        self.rest = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.score(x).view(-1), self.rest(x).sin().cos()


def test_a_loss_is_one_number_of_the_whole(mesh_of: MeshOf) -> None:
    x, rows = torch.ones(4, 256), [[Shard(0)]]
    settings: dict[str, Any] = {"inputs": rows, "outputs": rows * 2}
    found = graph.capture(Scores(), (x,), mesh_of(4), topology=TOPOLOGY, **settings)
    # The gradients of both layers are made.
    memory = found.solve().memory()
    assert memory.backward >= memory.gradients >= 256 * 256 * 4 // 4


def test_a_plan_of_the_forward_alone_keeps_nothing(mesh_of: MeshOf) -> None:
    x = torch.ones(512, 256)
    found = graph.capture(Wide(), (x,), mesh_of(2, 2), topology=TOPOLOGY, backward=False)
    memory = found.solve().memory(torch.optim.AdamW)
    assert (memory.optimizer, memory.gradients, memory.kept, memory.backward) == (0, 0, 0, 0)
    assert memory.peak == memory.held + memory.forward > memory.held > 0


class Waves(Wide):
    """Cheap calls one after another, of which the backward reads each operand."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).sin().cos().tanh().exp()).square().mean()


def test_less_is_kept_with_recomputing(mesh_of: MeshOf) -> None:
    x = torch.ones(512, 256)
    plan = graph.capture(Waves(), (x,), mesh_of(2, 2), topology=TOPOLOGY).solve()
    assert plan.memory(recompute=True).kept < plan.memory().kept


def test_an_optimizer_that_takes_no_step_is_refused(mesh_of: MeshOf) -> None:
    _, plan = planned(mesh_of(2, 2))
    with pytest.raises(ShardpropError, match="optimizer: Expected one that takes a step on tensor"):
        plan.memory(lambda parameters: None)  # type: ignore[arg-type, return-value]
