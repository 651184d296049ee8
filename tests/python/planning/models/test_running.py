"""Models run by their plans on a fake mesh: what is recognised, and what is left behind.

Values are checked on real processes (programs/test_planned.py).
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

import shardprop
from shardprop import ShardpropError, graph
from shardprop.propagation.propagator import current_policy, current_terms

from ...narrow import sharded
from .models import Habits, Mlp, Transformer

MeshOf = Callable[..., DeviceMesh]
TOPOLOGY = "h100-nvlink"
R = Replicate()


def planned(
    model: nn.Module, args: tuple[Any, ...], mesh: DeviceMesh, **settings: Any
) -> graph.ModelPlan:
    plan = graph.capture(model, args, mesh, topology=TOPOLOGY, **settings).solve()
    plan.apply(model)
    return plan


def sharded_mlp(mesh: DeviceMesh) -> tuple[nn.Module, graph.ModelPlan]:
    model = Mlp()
    constraints = {"up.weight": [R, Shard(0)], "down.weight": [R, Shard(1)]}
    return model, planned(model, (torch.ones(4, 16),), mesh, parameters=constraints)


def step(model: nn.Module, plan: graph.ModelPlan) -> None:
    with plan.running():
        model(torch.ones(4, 16)).sum().backward()


class Blend(nn.Module):
    """A product of which a part is kept: what is pending is best reduced at last, which takes a row
    of `lerp` that torch does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(16, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ self.weight
        return torch.lerp(y, 2 * y, 0.5)[:1]


def blended(mesh: DeviceMesh, **settings: Any) -> tuple[nn.Module, graph.ModelPlan]:
    """Of a batch of 8; its product is pending."""
    model, weight = Blend(), {"weight": [Shard(0)]}
    layouts: dict[str, Any] = {"inputs": [[Shard(1)]], "outputs": [[R]], "parameters": weight}
    return model, planned(model, (torch.ones(8, 16),), mesh, **layouts, **settings)


def counted(plan: graph.ModelPlan) -> list[Any]:
    return [dict(plan.ops.unplanned), dict(plan.ops.diverged)]


@pytest.mark.slow
def test_every_op_of_a_step_is_recognised(mesh_of: MeshOf) -> None:
    model = Transformer()
    tokens = torch.zeros(4, 16, dtype=torch.int64)
    plan = planned(model, (tokens, tokens), mesh_of(2, 2))
    with plan.running():
        model(tokens, tokens).backward()
    assert counted(plan) == [{}, {}]
    assert plan.mover.done == plan.volume


@pytest.mark.slow
def test_habits_of_models_are_recognised(mesh_of: MeshOf) -> None:
    model = Habits()
    x = torch.ones(8, 16)
    plan = planned(model, (x,), mesh_of(2, 2), example_kwargs={"scale": torch.ones(16)})
    with plan.running():
        outputs = model(x, scale=torch.ones(16))
        outputs["loss"].backward()
    assert plan.ops.unplanned == {}
    assert outputs["y"].placements == plan.placements().outputs[1]
    assert model.first is model.again
    assert model.tied.weight is model.first.weight
    assert model.unused.grad is None


def test_the_optimizer_in_the_block_is_no_part_of_the_program(mesh_of: MeshOf) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    with plan.running():
        for _ in range(2):  # the second adds to the gradients of the first
            model(torch.ones(4, 16)).sum().backward()
        optimizer.step()
    assert counted(plan) == [{}, {}]


def test_an_op_that_was_not_captured_is_counted(mesh_of: MeshOf) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    model.get_submodule("up").register_forward_hook(lambda module, args, output: output * 2)
    step(model, plan)
    assert plan.ops.unplanned["aten.mul.Tensor"] >= 1


def test_outside_of_the_block_decisions_are_taken_one_by_one(mesh_of: MeshOf) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    with torch.no_grad():
        output = model(torch.ones(4, 16))
    assert isinstance(output, DTensor)
    assert output.placements == plan.placements().outputs[0]


def test_the_block_leaves_shardprop_as_it_was(mesh_of: MeshOf) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    assert not shardprop.is_enabled()
    with pytest.raises(RuntimeError, match="on purpose"), plan.running():
        assert shardprop.is_enabled()
        raise RuntimeError("on purpose")
    assert not shardprop.is_enabled()
    with shardprop.enabled(policy="optimal", topology=TOPOLOGY):
        step(model, plan)
        assert shardprop.is_enabled()
    assert counted(plan) == [{}, {}]


def test_two_plans_at_once(mesh_of: MeshOf) -> None:
    (one, first), (two, second) = (sharded_mlp(mesh_of(2, 2)) for _ in range(2))
    with first.running(), second.running():
        (one(torch.ones(4, 16)) + two(torch.ones(4, 16))).sum().backward()
    assert counted(first) == counted(second) == [{}, {}]


def test_a_model_that_runs_by_a_plan_can_be_captured_and_applied_again(mesh_of: MeshOf) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    again = planned(model, (torch.ones(4, 16),), mesh_of(2, 2), inputs=[[Shard(0), R]])
    step(model, again)
    assert counted(again) == [{}, {}]
    assert not plan.mover.done.redistributions
    assert again.program.parameters.keys() == plan.program.parameters.keys()


def test_a_model_can_be_copied_and_its_state_saved(mesh_of: MeshOf) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    step(model, plan)
    twin = copy.deepcopy(model)
    twin(torch.ones(4, 16))
    saved = io.BytesIO()
    torch.save([p.detach() for p in model.parameters()], saved)
    torch.save(sharded(model.get_parameter("up.weight"))._local_tensor, saved)
    assert saved.tell() > 0


def test_arguments_by_name_may_come_in_any_order(mesh_of: MeshOf) -> None:
    class Two(Mlp):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return super().forward(x - y)

    model = Two()
    x, y = torch.ones(4, 16), torch.ones(4, 1)
    plan = planned(model, (), mesh_of(2, 2), example_kwargs={"y": y, "x": x})
    with plan.running():
        model(x=x, y=y).sum().backward()
    assert counted(plan) == [{}, {}]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((torch.ones(5, 16),), r"input_0: Expected the shape that was captured, \(4, 16\)"),
        ((torch.ones(4, 16), torch.ones(1)), "got more"),
        ((None,), "got fewer"),
    ],
    ids=["other shape", "one more", "none"],
)
def test_other_inputs_are_refused(mesh_of: MeshOf, args: tuple[Any, ...], message: str) -> None:
    model, plan = sharded_mlp(mesh_of(2, 2))
    with pytest.raises(ShardpropError, match=message), plan.running():
        model(*args)


def test_another_model_is_refused(mesh_of: MeshOf) -> None:
    _, plan = sharded_mlp(mesh_of(2, 2))
    with pytest.raises(ShardpropError, match=r"differs in 0\.bias"):
        plan.apply(nn.Sequential(nn.Linear(16, 16)))
    with pytest.raises(ShardpropError, match=r"Expected up\.weight of shape \(32, 16\)"):
        plan.apply(Mlp(hidden=64))


@pytest.mark.parametrize("before", [None, "torch", "torch's rows", "optimal"])
def test_rows_of_the_rule_book_are_run(mesh_of: MeshOf, before: str | None) -> None:
    """Whatever is enabled; what that asks for beside its policy holds in the block, too."""
    model, plan = blended(mesh_of(4))
    settings: dict[str, Any] = {"strict": True}
    if before != "torch":
        settings |= {"policy": "optimal", "topology": "cpu-gloo"}
        settings["rules"] = "complete" if before == "optimal" else "torch"
    with nullcontext() if before is None else shardprop.enabled(**settings):
        policy = current_policy()
        with plan.running():
            assert (current_policy() is policy) == (before == "optimal")
            assert current_terms().strict == (before is not None)
            model(torch.ones(8, 16)).sum().backward()
        assert current_policy() is policy
    assert counted(plan) == [{}, {}]
    assert plan.mover.done == plan.volume
    (lerp,) = (n.index for n in plan.program.nodes if n.op is torch.ops.aten.lerp.Scalar)
    assert plan.wanted(lerp) == ((Partial(),), (Partial(),))


def test_a_plan_of_torchs_rows_runs_under_any_policy(mesh_of: MeshOf) -> None:
    model, plan = blended(mesh_of(4), rules="torch")
    with shardprop.enabled():
        policy = current_policy()
        with plan.running():
            assert current_policy() is policy
            model(torch.ones(8, 16)).sum().backward()
    assert counted(plan) == [{}, {}]


def test_rules_are_torchs_or_complete(mesh_of: MeshOf) -> None:
    with pytest.raises(ShardpropError, match="rules: Expected 'complete' or 'torch'"):
        blended(mesh_of(4), rules="all")
