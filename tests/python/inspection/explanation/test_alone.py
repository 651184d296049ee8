"""One rank alone may ask why: nothing communicates."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import shardprop

from ...narrow import sharded
from ...optimal.gloo import Processes


def asked_on_the_first_rank() -> tuple[list[str], list[str], bool]:
    """Ops that are explained, kinds of steps that they would take, is `weight` as it was?"""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    x = DTensor.from_local(torch.ones(4, 8), mesh, [Shard(0)], run_check=False)
    weight = DTensor.from_local(torch.ones(4, 8), mesh, [Shard(0)], run_check=False)
    weight.requires_grad_()

    def step(x: DTensor) -> None:
        hidden = sharded((x @ weight).softmax(0))
        hidden.redistribute(placements=[Replicate()]).sum().backward()
        weight.detach().mul_(2)
        sharded(weight.detach()).redistribute(placements=[Replicate()])

    ops, kinds = [], []
    if dist.get_rank() == 0:
        explanation = shardprop.explain(step, x)
        ops = [decision.op for decision in explanation.decisions]
        moves = [move for decision in explanation.decisions for move in decision.moves]
        kinds = [step.kind for move in moves if move.plan for step in move.plan.steps]
    untouched = weight.grad is None and torch.equal(weight.to_local(), torch.ones(4, 8))
    # A collective that only one rank began would meet this one.
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == 2
    return ops, kinds, untouched


def test_nothing_communicates(gloo: Processes) -> None:
    (ops, kinds, untouched), (others, _, untouched_elsewhere) = gloo.call(asked_on_the_first_rank)
    assert {"aten.mm.default", "aten._softmax.default", "aten.mul_.Tensor"} <= {*ops}
    assert "all_gather" in kinds
    assert others == []
    assert untouched and untouched_elsewhere
