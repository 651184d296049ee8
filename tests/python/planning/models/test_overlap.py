"""Plans of which a step takes least, with redistributions beside ops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh

from shardprop import ShardpropError, graph
from shardprop.planning.models import overlap
from shardprop.planning.models.overlap import _factors, _sides

from .models import Mlp, Transformer

MeshOf = Callable[..., DeviceMesh]
TOKENS = torch.zeros(64, 16, dtype=torch.long)


@pytest.fixture
def captured(mesh_of: MeshOf) -> graph.Capture:
    with torch.device("meta"):
        model, x = Mlp(4096, 16384), torch.empty(8192, 4096)
    return graph.capture(model, (x,), mesh_of(4, 2), topology="h100-nvlink")


def test_a_step_takes_no_longer_than_by_the_cheapest_plan(captured: graph.Capture) -> None:
    serial, overlapped = captured.solve(), captured.solve(overlap=True)
    assert overlapped.timeline().us < 0.99 * serial.timeline().us
    assert overlapped.cost_us >= serial.cost_us
    assert overlapped.cost_us == captured.problem.check(overlapped.solution.labels).objective
    # What is proved is proved of the cost.
    assert overlapped.solution.lower_bound == pytest.approx(serial.solution.lower_bound)
    assert not overlapped.solution.proved


def test_of_plans_that_cost_the_same_the_shortest_step_is_taken(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.device("meta"):
        model, x = Mlp(1024, 4096), torch.empty(65536, 1024)
    captured = graph.capture(model, (x,), mesh_of(4, 2), topology="h100-nvlink")
    monkeypatch.setattr(overlap, "_PARTS", overlap._PARTS[:2])
    serial, overlapped = captured.solve(), captured.solve(overlap=True)
    assert overlapped.cost_us == pytest.approx(serial.cost_us, rel=1e-9)
    assert overlapped.solution.proved
    assert overlapped.timeline().us < 0.995 * serial.timeline().us


def test_without_time_the_first_plan_is_taken(
    captured: graph.Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    plan_of = graph.Capture.plan

    def counted(self: graph.Capture, solution: graph.Solution) -> graph.ModelPlan:
        made.append(solution)
        return plan_of(self, solution)

    monkeypatch.setattr(graph.Capture, "plan", counted)
    plan = captured.solve(overlap=True, time_limit=1e-3)
    assert len(made) == 2  # to look at its step, and to return it
    assert captured.problem.check(plan.solution.labels).feasible


def test_it_may_be_bound_in_memory(captured: graph.Capture) -> None:
    peak = captured.solve(overlap=True).memory().peak
    bound = captured.solve(overlap=True, memory=0.9 * peak, time_limit=60)
    assert bound.memory().peak <= 0.9 * peak
    assert bound.memory_limit == 0.9 * peak


def test_weights_and_gradients_may_be_beside_ops(mesh_of: MeshOf) -> None:
    found = graph.capture(Transformer(), (TOKENS, TOKENS), mesh_of(2, 2), topology="h100-nvlink")
    program, problem = found.program, found.problem
    factors = _factors(_sides(problem, program), (0.25, 0.5))
    nodes = program.nodes
    for edge, factor in zip(problem.edges, factors, strict=True):
        reader, made = nodes[edge.u], nodes[edge.v]
        if made.kind == "parameter" or reader.kind == "gradient":
            assert factor == (0.5 if reader.backward else 0.25)
        elif made.kind == "input" or reader.kind == "output":
            assert factor == 1.0
    assert {*factors.tolist()} == {0.25, 0.5, 1.0}


def test_scaled_prices_are_those_of_the_problem_by_factors(captured: graph.Capture) -> None:
    problem = captured.problem
    labels = captured.solve().solution.labels
    factors = np.linspace(0.0, 2.0, len(problem.edges))
    scaled = problem.scaled(factors)
    singles = [
        problem.scaled(np.eye(len(problem.edges))[at]).check(labels).edges
        for at in range(len(problem.edges))
    ]
    assert scaled.check(labels).edges == pytest.approx(float(factors @ singles))
    assert scaled.check(labels).unary == problem.check(labels).unary
    with pytest.raises(ShardpropError, match="finite of_edges, at least 0"):
        problem.scaled(-factors)
    with pytest.raises(ShardpropError, match=f"{len(factors)} of_edges, got 1"):
        problem.scaled([1.0])
