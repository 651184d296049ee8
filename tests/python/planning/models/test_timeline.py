"""Planned steps on two streams, beside what their plans cost one thing after another."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import fx, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard

from shardprop import graph
from shardprop._torch import ALL_REDUCE_OP, WAIT_OP
from shardprop.cost.cost_model import COLLECTIVES
from shardprop.erasure import LocalGraphs
from shardprop.planning.models.call_durations import CallDurations
from shardprop.planning.models.lowering import _PART, Part
from shardprop.planning.models.program import Ref
from shardprop.planning.models.timeline import timeline_of

from .models import Mlp, Transformer

MeshOf = Callable[..., DeviceMesh]
TOKENS = torch.zeros(64, 16, dtype=torch.long)


def planned(mesh: DeviceMesh) -> graph.ModelPlan:
    """Of data parallel: gradients are reduced beside the backward."""
    everywhere = [Replicate()] * mesh.ndim
    return graph.capture(
        Mlp(1024, 4096),
        (torch.ones(512, 1024),),
        mesh,
        topology="h100-nvlink",
        parameters={"*": everywhere},
        inputs=[[Shard(0)] * mesh.ndim],
    ).solve()


def test_a_step_takes_what_its_plan_costs_less_what_is_beside_it(mesh_of: MeshOf) -> None:
    plan = planned(mesh_of(4))
    timeline = plan.timeline()
    moved = [step for each in plan.redistributions for step in each.run]
    assert timeline.busy_us("compute") == pytest.approx(
        plan.compute_us.sum() + sum(step.local_us for step in moved)
    )
    assert timeline.busy_us("collectives") == pytest.approx(sum(step.comm_us for step in moved))
    assert len([each for each in timeline.events if each.stream == "collectives"]) == (
        plan.volume.collectives
    )
    longest = max(timeline.busy_us("compute"), timeline.busy_us("collectives"))
    assert longest <= timeline.us < plan.cost_us
    assert timeline.backward[0].start_us == max(each.end_us for each in timeline.forward)


def test_no_stream_does_two_things_at_once(mesh_of: MeshOf) -> None:
    found = graph.capture(Transformer(), (TOKENS, TOKENS), mesh_of(2, 2), topology="h100-nvlink")
    timeline = found.solve().timeline()
    for stream in ("compute", "collectives"):
        events = [each for each in timeline.events if each.stream == stream]
        ends = [each.end_us for each in events]
        assert all(
            end <= after.start_us + 1e-9 for end, after in zip(ends, events[1:], strict=False)
        )


def test_a_collective_is_waited_for_where_it_is_read(mesh_of: MeshOf) -> None:
    steps = (step for each in planned(mesh_of(4)).redistributions for step in each.steps)
    step = next(step for step in steps if step.kind in COLLECTIVES and step.comm_us > 3)
    moved = Part(1, Ref(0), (step,))
    built = fx.Graph()
    x = built.placeholder("x")
    begun = built.call_function(ALL_REDUCE_OP, (x, "sum", "0"))
    begun.meta[_PART] = moved
    for at in range(2):
        built.call_function(torch.relu, (x,)).meta[_PART] = Part(2 + at)
    waited = built.call_function(WAIT_OP, (begun,))
    waited.meta[_PART] = moved
    built.call_function(torch.relu, (waited,)).meta[_PART] = Part(4)
    built.output((waited,))
    compute_us = np.array([0.0, 0.0, 1.0, 2.0, 5.0])
    durations = CallDurations(compute_us, lambda part: part.steps)
    made = timeline_of(LocalGraphs(built, None, 1), durations)
    local, whole = step.local_us, step.local_us + step.comm_us
    compute = [(each.node, each.start_us) for each in made.events if each.stream == "compute"]
    assert compute[-3:] == [(2, local), (3, local + 1), (4, pytest.approx(whole))]
    assert made.us == pytest.approx(whole + 5)


def test_ops_of_the_backward_do_not_wait_for_gradients(mesh_of: MeshOf) -> None:
    plan = planned(mesh_of(4))
    ordered, traced = plan.timeline(), plan.timeline(passes=[])
    ops = [each for each in ordered.backward if each.stream == "compute"]
    assert ops[-1].end_us - ops[0].start_us == pytest.approx(sum(each.us for each in ops))
    assert ordered.us < 0.8 * traced.us


def test_a_model_without_a_backward_has_a_forward(mesh_of: MeshOf) -> None:
    args = (torch.ones(8, 16),)
    found = graph.capture(
        nn.Linear(16, 16), args, mesh_of(4), topology="h100-nvlink", backward=False
    )
    timeline = found.solve().timeline()
    assert timeline.backward == ()
    assert timeline.us > 0


def test_browsers_can_show_it(mesh_of: MeshOf) -> None:
    timeline = planned(mesh_of(4)).timeline()
    values = json.loads(json.dumps(timeline.to_json()))
    names, events = values["traceEvents"][:2], values["traceEvents"][2:]
    assert [each["args"]["name"] for each in names] == ["compute", "collectives"]
    assert len(events) == len(timeline.events)
    assert max(each["ts"] + each["dur"] for each in events) == pytest.approx(timeline.us)
