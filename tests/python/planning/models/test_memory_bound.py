"""Plans that hold no more than a rank may, beside what their graphs are found to hold."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from shardprop import ShardpropError, graph
from shardprop.planning.models.lifetimes import lifetimes_of
from shardprop.planning.models.memory_bound import MemoryBound

from ...erasure.allocated import allocated
from .models import Mlp, Transformer

MeshOf = Callable[..., DeviceMesh]
TOPOLOGY = "h100-nvlink"
TOKENS = torch.zeros(64, 16, dtype=torch.long)
ADAM = torch.optim.AdamW


class Ends(nn.Module):
    """Two outputs, one of them the loss, a buffer that is written, and a tensor expanded."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 128)
        self.norm = nn.BatchNorm1d(128)
        self.last = nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.last(self.norm(self.first(x)).relu())
        rows = found.mean(0, keepdim=True).expand_as(found)
        return (found - rows).square().mean(), found.sigmoid()


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "transformer": (lambda: Transformer(layers=1), (TOKENS, TOKENS)),
    "ends": (Ends, (torch.ones(256, 64),)),
    "uneven": (lambda: Mlp(15, 33), (torch.ones(30, 15, requires_grad=True),)),
}


def captured(name: str, mesh: DeviceMesh) -> graph.Capture:
    make, args = MODELS[name]
    return graph.capture(make(), args, mesh, topology=TOPOLOGY)


@pytest.mark.parametrize("shape", [(4,), (2, 2)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_held_all_the_time_is_what_the_rows_say(
    name: str, shape: tuple[int, ...], mesh_of: MeshOf
) -> None:
    found = captured(name, mesh_of(*shape))
    plan = found.solve()
    bound = MemoryBound(found.labelled, 1.0, ADAM, lambda _: plan.memory(ADAM))
    labels = plan.solution.labels
    assert sum(held[labels[node]] for node, held in bound.entering.items()) == (
        plan.memory(ADAM).held
    )


@pytest.mark.parametrize("name, share", [("transformer", 0.7), ("uneven", 0.8), ("ends", 0.5)])
def test_a_bound_is_kept(name: str, share: float, mesh_of: MeshOf, tmp_path: Path) -> None:
    found = captured(name, mesh_of(2, 2))
    free = found.solve()
    limit = share * free.memory(ADAM).peak
    plan = found.solve(memory=limit, optimizer=ADAM, time_limit=12)
    assert plan.memory(ADAM).peak <= limit
    assert free.cost_us < plan.cost_us < 3 * free.cost_us
    assert free.cost_us * (1 - 1e-3) <= plan.solution.lower_bound <= plan.cost_us
    assert plan.problem.check(plan.solution.labels).feasible
    assert f"within {limit:,.0f} bytes; no plan costs less than" in str(plan.report())
    # What was found within a bound is not the best without one.
    plan.save(tmp_path / "plan.json")
    loaded = found.load(tmp_path / "plan.json").solution
    assert (loaded.objective, loaded.lower_bound) == (plan.cost_us, -math.inf)
    assert not loaded.proved


def test_a_bound_that_does_not_bite_changes_nothing(mesh_of: MeshOf) -> None:
    found = captured("transformer", mesh_of(2, 2))
    free = found.solve()
    plan = found.solve(memory=free.memory(ADAM).peak, optimizer=ADAM, relative_gap=0.0)
    assert plan.cost_us == pytest.approx(free.cost_us)
    assert plan.solution.proved


class Again(nn.Module):
    """Makes the same of the same eight times, and something for an output without a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.first(x)
        found = torch.zeros_like(hidden)
        for weight in range(8):
            found = found + hidden.sigmoid() * float(weight)
        return found.square().mean(), x.tan()


def test_what_a_plan_holds_it_may_hold(mesh_of: MeshOf) -> None:
    args = (torch.ones(256, 64, requires_grad=True),)
    found = graph.capture(Again(), args, mesh_of(4), topology=TOPOLOGY)
    free = found.solve()
    plan = found.solve(memory=free.memory(ADAM).peak, optimizer=ADAM)
    assert plan.cost_us == pytest.approx(free.cost_us)


class Chain(nn.Module):
    """Linear layers of these widths."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return x.square().mean()


@pytest.mark.parametrize(
    "shape, widths, rows, share",
    [
        # Rows that are wide enough bring the same again; without a time limit.
        ((2, 2), (512, 1024, 512, 1024, 128), 8192, 0.9999),
        # What moves takes more than rows say.
        ((8,), (8, 1024, 8), 8192, 0.5),
    ],
)
def test_a_search_goes_on_as_long_as_it_helps(
    shape: tuple[int, ...], widths: tuple[int, ...], rows: int, share: float, mesh_of: MeshOf
) -> None:
    args = (torch.ones(rows, widths[0]),)
    found = graph.capture(Chain(*widths), args, mesh_of(*shape), topology=TOPOLOGY)
    limit = share * found.solve().memory(ADAM).peak
    plan = found.solve(memory=limit, optimizer=ADAM, time_limit=None)
    assert plan.memory(ADAM).peak <= limit


@pytest.mark.parametrize("gap", [float("nan"), -1.0])
def test_a_gap_that_is_none_is_refused(gap: float, mesh_of: MeshOf) -> None:
    with pytest.raises(ShardpropError, match="relative_gap"):
        captured("uneven", mesh_of(4)).solve(memory=1e9, relative_gap=gap)


def test_the_time_is_kept(mesh_of: MeshOf) -> None:
    found = captured("transformer", mesh_of(2, 2))
    limit = 0.7 * found.solve().memory(ADAM).peak
    began = time.monotonic()
    with suppress(graph.UnsolvedError):
        found.solve(memory=limit, optimizer=ADAM, time_limit=2)
    assert time.monotonic() - began < 12  # and the round that it ended in


def test_a_step_allocates_no_more_than_it_may(mesh_of: MeshOf) -> None:
    found = captured("ends", mesh_of(2, 2))
    limit = 0.5 * found.solve().memory().peak
    plan = found.solve(memory=limit, time_limit=10)
    model, x = plan.compile(Ends()), MODELS["ends"][1][0]
    model(x)[0].backward()
    model.zero_grad(set_to_none=True)
    _, most = allocated(lambda: model(x)[0].backward())
    assert plan.memory().held + most <= 1.05 * limit


def test_less_than_any_plan_holds_is_refused(mesh_of: MeshOf) -> None:
    found = captured("uneven", mesh_of(4))
    with pytest.raises(graph.InfeasibleError, match="'memory of a rank' wants a sum of at most"):
        found.solve(memory=100)


@pytest.mark.parametrize("memory", [0, -1.0, float("nan"), "16 GB", True])
def test_what_is_no_size_is_refused(memory: Any, mesh_of: MeshOf) -> None:
    with pytest.raises(ShardpropError, match=r"memory: Expected bytes above 0, an int or a float"):
        captured("uneven", mesh_of(4)).solve(memory=memory)


def test_what_other_outputs_alone_lead_to_does_not_run(mesh_of: MeshOf) -> None:
    program = captured("ends", mesh_of(4)).program
    run = {program.nodes[node].name for node in lifetimes_of(program).order}
    left_out = {node.name for node in program.nodes if node.op is not None} - run
    assert any(name.startswith("sigmoid_backward") for name in left_out)
    assert not any(name.startswith("pow") or name.startswith("mean") for name in left_out)
