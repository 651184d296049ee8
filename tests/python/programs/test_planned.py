"""A transformer that runs by a plan for all of it, on four real processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, fx, nn
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.utils._python_dispatch import TorchDispatchMode

from shardprop import ShardpropError, graph
from shardprop.erasure import LocalGraphs
from shardprop.planning.models.model_plan import ModelPlan

from ..narrow import sharded
from ..planning.models.models import Habits, Mlp, Normed, Transformer
from .pool import Pool
from .world import mesh_of

pytestmark = [
    pytest.mark.slow,
    # Of the hooks that CommDebugMode puts on modules.
    pytest.mark.filterwarnings(
        "ignore:For backward hooks to be called", "ignore:Full backward hook is firing"
    ),
]

STEPS = 3
VOCAB, BATCH, SEQ = 64, 8, 16


WISHES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "megatron": (
        {
            "layers.*.mlp.up.weight": [Replicate(), Shard(0)],
            "layers.*.mlp.down.weight": [Replicate(), Shard(1)],
        },
        [[Shard(0), Replicate()]] * 2,
    ),
    "vocabulary": (
        {
            "embedding.weight": [Replicate(), Shard(0)],
            "head.weight": [Replicate(), Shard(0)],
        },
        [[Shard(0), Replicate()]] * 2,
    ),
    "batch": ({}, [[Shard(0), Replicate()]]),
}


_COLLECTIVES = {
    f"_c10d_functional.{name}.default"
    for name in (
        "all_gather_into_tensor",
        "all_reduce",
        "all_to_all_single",
        "reduce_scatter_tensor",
    )
}


@dataclass(frozen=True)
class Report:
    """What one rank saw.

    Attributes:
        planned: Losses of the model that runs by the plan.
        single: Losses of the same model on one device.
        gradients: How far the largest difference of a gradient is from that of one device, over
            the largest element of it.
        stated: Collectives of the plan.
        seen: Collectives that torch dispatched in each step, and those that CommDebugMode counted.
        buffers: As `gradients`, of what buffers hold in the end.
        strangers: Parameters or gradients that lie elsewhere than planned.
    """

    planned: list[float]
    single: list[float]
    gradients: list[float]
    stated: int
    seen: list[tuple[int, int]]
    buffers: list[float]
    strangers: list[str]


class CollectivesCounted(TorchDispatchMode):
    """Counts collectives where torch dispatches them."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented  # what it is made of comes by later
        self.count += str(func) in _COLLECTIVES
        return func(*args, **(kwargs or {}))


def compare(program: Callable[[], Report]) -> Report:
    """Its own report; nothing is compared."""
    return program()


def model_of(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "habits":
        return Habits()
    if kind == "norms":
        return Normed()
    return Transformer(layers=2, vocab=VOCAB, seq=SEQ, fused=kind == "fused")


def batch(kind: str, step: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(step)
    if kind == "habits":
        return torch.randn(BATCH, 16, generator=generator), torch.rand(16, generator=generator)
    if kind == "norms":
        return (torch.randn(BATCH, 3, 8, 8, generator=generator),)
    ids = torch.randint(VOCAB, (BATCH, SEQ + 1), generator=generator)
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def loss_of(output: Any) -> Tensor:
    return output["loss"] if isinstance(output, dict) else output


def run(
    *,
    shape: tuple[int, ...],
    topology: str = "cpu-gloo",
    memory: float | None = None,
    wishes: str = "",
    kind: str = "transformer",
) -> Report:
    mesh = mesh_of(shape, ("dp", "tp")[: len(shape)])
    model, single = model_of(kind), model_of(kind)
    parameter_bytes = sum(p.numel() * p.itemsize for p in model.parameters())
    parameters, inputs = WISHES.get(wishes, (None, None))
    captured = graph.capture(
        model,
        batch(kind, 0),
        mesh,
        topology=topology,
        inputs=inputs,
        parameters=parameters,
        parameter_memory=None if memory is None else memory * parameter_bytes,
    )
    plan = captured.solve()
    assert plan.solution.proved
    plan.compile(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, single)]
    planned, alone, gradients, seen = [], [], [], []
    wanted = plan.placements().parameters
    strangers = [n for n, p in model.named_parameters() if sharded(p).placements != wanted[n]]
    for step in range(STEPS):
        with CollectivesCounted() as counted, CommDebugMode() as torchs:
            torch.manual_seed(step)  # all ranks, and one device, drop the same
            loss = loss_of(model(*batch(kind, step)))
            loss.backward()
        seen.append((counted.count, torchs.get_total_counts()))
        strangers += [
            n
            for n, p in model.named_parameters()
            if p.grad is not None and sharded(p.grad).placements != wanted[n]
        ]
        planned.append(sharded(loss).full_tensor().item())
        torch.manual_seed(step)
        loss = loss_of(single(*batch(kind, step)))
        loss.backward()
        alone.append(loss.item())
        gradients.append(max(map(distance, model.parameters(), single.parameters())))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    buffers = [*map(apart, model.buffers(), single.buffers())]
    volume = plan.volume.collectives
    return Report(planned, alone, gradients, volume, seen, buffers, strangers)


def distance(parameter: Tensor, alone: Tensor) -> float:
    """Of the gradient of a parameter from that of one device."""
    if alone.grad is None or parameter.grad is None:
        return 0.0 if alone.grad is parameter.grad else float("inf")
    return apart(parameter.grad, alone.grad)


def apart(found: Tensor, alone: Tensor) -> float:
    """The largest difference, over the largest element."""
    whole = sharded(found).full_tensor()
    return ((whole - alone).abs().max() / alone.abs().max()).item()


@pytest.mark.parametrize(
    "settings",
    [
        {"shape": (4,)},
        {"shape": (2, 2)},
        {"shape": (2, 2), "topology": "h100-nvlink"},
        {"shape": (2, 2), "memory": 0.3},
        {"shape": (2, 2), "wishes": "megatron"},
        {"shape": (2, 2), "wishes": "vocabulary"},
        {"shape": (2, 2), "kind": "fused", "memory": 0.3},
        {"shape": (2, 2), "kind": "habits", "memory": 0.6},
        {"shape": (2, 2), "kind": "norms", "memory": 0.6, "wishes": "batch"},
    ],
    ids=[
        "one dim",
        "two dims",
        "h100",
        "little memory",
        "megatron",
        "vocabulary",
        "fused attention",
        "habits",
        "batch norms and dropout",
    ],
)
def test_losses_gradients_and_collectives_are_as_planned(
    gloo: Pool, settings: dict[str, object]
) -> None:
    reports = gloo.run(partial(run, **settings), compare)  # type: ignore[arg-type]
    for report in reports:
        assert report.strangers == []
        assert report.planned == pytest.approx(report.single, rel=1e-5)
        assert report.buffers == pytest.approx([0.0] * len(report.buffers), abs=1e-5)
        assert report.gradients == pytest.approx([0.0] * STEPS, abs=1e-5)
        assert report.seen == [(report.stated, report.stated)] * STEPS
    # Each step learns something, so that the losses are not equal by accident.
    assert len({round(loss, 4) for loss in reports[0].single}) == STEPS
    if settings.get("memory"):
        assert reports[0].stated > 0


def compile_another_plan_on_one_rank() -> str:
    mesh = mesh_of((2, 2), ("dp", "tp"))
    model, tokens = Transformer(), batch("megatron", 0)
    captured = graph.capture(model, tokens, mesh, topology="h100-nvlink")
    if dist.get_rank() == 1:
        captured.problem.forbid(0, captured.solve().solution.labels[:1])
    try:
        captured.solve().compile(model)
    except ShardpropError as error:
        assert not any(isinstance(each, DTensor) for each in model.parameters())
        return str(error)
    return ""


def test_ranks_with_different_plans_are_refused_on_all(gloo: Pool) -> None:
    for message in gloo.run(compile_another_plan_on_one_rank, ask):  # type: ignore[arg-type]
        assert message.startswith("Expected the same plan on every rank, got different ones")


def compile_with_other_durations_on_one_rank(*, then: bool = False) -> str:
    """Why it is refused; else the order in which it begins collectives."""
    model, x = Mlp(1024, 4096), torch.ones(512, 1024)
    found = graph.capture(
        *(model, (x,), mesh_of((4,), ("dp",))),
        topology="h100-nvlink",
        parameters={"*": [Replicate()]},
        inputs=[[Shard(0)]],
    )
    plan = found.solve()
    if dist.get_rank() == 1:
        plan.__dict__["_durations"] = lambda graph: {}
        if then:
            plan.__dict__["_local"] = lambda *args: without_collectives(
                *ModelPlan._local(plan, *args)
            )
    try:
        plan.compile(model)
    except ShardpropError as error:
        assert not any(isinstance(each, DTensor) for each in model.parameters())
        return str(error)
    return "by price" if plan._is_scheduled else "as in the program"


def without_collectives(joint: Any, run: Any, graphs: LocalGraphs) -> tuple[Any, Any, LocalGraphs]:
    return joint, run, graphs._replace(forward=fx.Graph(), backward=None)


def test_ranks_that_would_meet_in_another_order_keep_to_the_program(gloo: Pool) -> None:
    orders = gloo.run(compile_with_other_durations_on_one_rank, ask)  # type: ignore[arg-type]
    assert orders == ["as in the program"] * 4


def test_ranks_with_other_collectives_are_refused_on_all(gloo: Pool) -> None:
    program = partial(compile_with_other_durations_on_one_rank, then=True)
    for message in gloo.run(program, ask):  # type: ignore[arg-type]
        assert message.startswith("Expected the same collectives in the same order")


def ask(program: Callable[[], str]) -> str:
    return program()
