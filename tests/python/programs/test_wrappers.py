"""What programs put around DTensor: local_map, redistribution, checkpointing, debug modes."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
)
from torch.distributed.tensor._redistribute import use_min_cost_redistribution_plan
from torch.distributed.tensor._utils import ExplicitRedistributionContext
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.experimental import local_map
from torch.utils._debug_mode import DebugMode
from torch.utils.checkpoint import checkpoint

from ..narrow import per_rank, sharded
from .check import check
from .compare import Program, compare
from .outcome import Results
from .pool import Pool
from .world import gradients, mesh_of, placed, seeded, spread

pytestmark = pytest.mark.slow

R, P, S = Replicate(), Partial(), Shard


def mapped_locally() -> Results:
    """A function of local shards between DTensor ops; its inputs are redistributed for it."""
    mesh = mesh_of((2, 2))

    @partial(
        local_map,
        out_placements=([S(0), P],),
        in_placements=([S(0), S(1)], [R, S(0)]),
        in_grad_placements=([S(0), S(1)], [P, S(0)]),
        redistribute_inputs=True,
        device_mesh=mesh,
    )
    def partial_product(x: Tensor, w: Tensor) -> Tensor:
        return F.silu(x) @ w

    x = spread(seeded(8, 6), mesh, R, S(0)).requires_grad_()
    w = spread(seeded(6, 4, seed=1), mesh, S(1), R).requires_grad_()
    y = partial_product(x * 2, w)
    loss = (y.redistribute(placements=[S(0), S(1)]) + 1).square().sum()
    loss.backward()
    return {"y": y, "loss": loss, "x": x.grad, "w": w.grad}


def redistributed() -> Results:
    """Explicit redistributions forward, their transposes backward, through plain tensors too."""
    mesh = mesh_of((2, 2))
    x = seeded(8, 6).requires_grad_()
    journey: list[tuple[Placement, Placement]] = [
        (S(0), S(1)),
        (S(1), S(1)),
        (R, S(0)),
        (S(0), S(0)),
        (S(1), R),
        (R, R),
    ]
    # From rank 0's data: this one is sent.
    y = distribute_tensor(x, mesh, [S(0), R])
    results: dict[str, object] = {"sent": y}
    for number, placements in enumerate(journey):
        y = sharded(y * (number + 1)).redistribute(placements=placements, async_op=bool(number % 2))
        local = y.to_local(grad_placements=placements).tanh()
        y = DTensor.from_local(
            local, mesh, placements, run_check=False, shape=y.shape, stride=y.stride()
        )
        results[f"stop {number}"] = y
    summed = DTensor.from_local(y.to_local() * 0.25, mesh, [P, P], run_check=False)
    loss = summed.redistribute(placements=[S(0), S(1)]).square().sum()
    sharded(loss).full_tensor().backward()
    return results | {"loss": loss, "x": x.grad}


def planned_at_least_cost() -> Results:
    """torch's graph planner for every redistribution, those of ops included."""
    mesh = mesh_of((2, 2))
    with use_min_cost_redistribution_plan():
        x = spread(seeded(8, 8), mesh, S(0), S(0)).requires_grad_()
        w = placed(seeded(8, 8, seed=1), mesh, P, S(0))
        y = sharded(x @ w).redistribute(placements=[R, S(0)])
        sharded(y.square().sum()).full_tensor().backward()
    return {"y": y, "x": x.grad}


class Mlp(nn.Module):
    """Two layers with a dropout between."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.dropout(torch.relu(self.up(x)), 0.5))


def _shard_rows(name: str, module: nn.Module, mesh: DeviceMesh) -> None:
    """`up` by its outputs, `down` by its inputs, like Megatron."""
    if isinstance(module, nn.Linear):
        dim = 0 if name == "up" else 1
        module.weight = nn.Parameter(spread(module.weight, mesh, S(dim)))


def distributed_mlp() -> nn.Module:
    """An Mlp by `distribute_module`, which replicates the biases, takes plain tensors and
    returns them."""
    mesh = mesh_of((4,))

    def take(_: nn.Module, inputs: Any, mesh: DeviceMesh) -> Any:
        return (DTensor.from_local(inputs[0], mesh, [R], run_check=False),)

    def give(_: nn.Module, output: Any, mesh: DeviceMesh) -> Any:
        return output.full_tensor()

    return distribute_module(Mlp(), mesh, _shard_rows, take, give)


def checkpointed(*, reentrant: bool) -> Results:
    """Activations computed again in the backward pass, dropout included."""
    model = distributed_mlp()
    x = seeded(6, 8).requires_grad_()
    y = checkpoint(model, x, use_reentrant=reentrant)
    y.square().sum().backward()
    return {"y": y.detach(), "x": x.grad, "gradients": gradients(model)}


def called_with_other_parameters() -> Results:
    """functional_call on a deep copy, gradients by autograd.grad."""
    model = copy.deepcopy(distributed_mlp())
    twice = {name: p * 2 for name, p in model.named_parameters()}
    y = torch.func.functional_call(model, twice, (seeded(6, 8),))
    found = torch.autograd.grad(y.square().sum(), list(model.parameters()))
    return {"y": y.detach(), "gradients": found}


def counted() -> Results:
    """CommDebugMode counts the collectives of both passes: as many of each kind."""
    model = distributed_mlp()
    with CommDebugMode() as mode:
        model(seeded(6, 8)).square().sum().backward()
    counts = {str(op): n for op, n in mode.get_comm_counts().items()}
    assert sum(counts.values()) > 0
    return {"counts": counts, "gradients": gradients(model)}


def logged() -> Results:
    """DebugMode sees the same ops and redistributions, those of ops and those asked for."""
    mesh = mesh_of((2, 2))
    x = spread(seeded(8, 6), mesh, S(0), S(1)).requires_grad_()
    w = spread(seeded(6, 4, seed=1), mesh, R, S(1))
    with DebugMode() as mode:
        sharded(x @ w).redistribute(placements=[S(1), S(0)]).relu().sum().backward()
    assert "redistribute_input" in mode.debug_string()
    return {"log": mode.debug_string(), "x": x.grad}


def refused() -> Results:
    """An implicit redistribution where only explicit ones are allowed: the same refusal. One
    that moves nothing is let through."""
    mesh = mesh_of((2, 2))
    x = spread(seeded(8, 8), mesh, S(0), S(1))
    y = spread(seeded(8, 8, seed=1), mesh, R, R)
    with ExplicitRedistributionContext():
        added = x + y
        with pytest.raises(RuntimeError, match="redistribution") as caught:
            x @ x
    return {"sum": added, "error": str(caught.value)}


@pytest.mark.parametrize(
    "program",
    [
        mapped_locally,
        redistributed,
        pytest.param(partial(checkpointed, reentrant=True), id="checkpointed, reentrant"),
        pytest.param(partial(checkpointed, reentrant=False), id="checkpointed"),
        called_with_other_parameters,
        counted,
        logged,
        refused,
        planned_at_least_cost,
    ],
)
def test_on_real_processes(gloo: Pool, program: Program) -> None:
    check(gloo.run(program), decisions=2)


def in_local_tensor_mode() -> Results:
    """All four ranks in one process."""
    with LocalTensorMode(4):
        mesh = DeviceMesh("cpu", torch.arange(4).reshape(2, 2))
        x = distribute_tensor(seeded(8, 6), mesh, [S(0), S(1)]).requires_grad_()
        w = distribute_tensor(seeded(6, 8, seed=1), mesh, [R, S(0)])
        y = sharded(F.layer_norm(x @ w, (8,))).redistribute(placements=[S(1), S(0)])
        sharded(y.square().sum()).full_tensor().backward()
        return {
            "y": per_rank(y.full_tensor()).reconcile().detach(),
            "x": per_rank(sharded(x.grad).full_tensor()).reconcile(),
        }


def test_in_local_tensor_mode() -> None:
    check([compare(in_local_tensor_mode)], decisions=2)
