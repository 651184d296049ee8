"""Plans as files: read, compared, and applied without a solve."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard

from shardprop import ShardpropError, graph
from shardprop._torch import MaskPartial, StridedShard

from ...narrow import sharded
from ...specs import R
from .models import Mlp

MeshOf = Callable[..., DeviceMesh]
TOPOLOGY = "h100-nvlink"
X = torch.ones(4, 16)
BY_ROWS = {"up.weight": [R, Shard(0)]}


def captured(mesh: DeviceMesh, topology: str = TOPOLOGY, **settings: Any) -> graph.Capture:
    return graph.capture(Mlp(), (X,), mesh, topology=topology, **settings)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


def test_a_plan_is_applied_from_its_file(mesh_of: MeshOf, path: Path) -> None:
    mesh = mesh_of(2, 2)
    plan = captured(mesh, parameters=BY_ROWS).solve()
    plan.save(path)
    loaded = captured(mesh, parameters=BY_ROWS).load(path)
    assert loaded.placements() == plan.placements()
    assert loaded.redistributions == plan.redistributions
    assert loaded.cost_us == pytest.approx(plan.cost_us)
    assert loaded.solution.proved and loaded.solution.lower_bound == plan.solution.lower_bound
    weight = loaded.compile(Mlp()).get_parameter("up.weight")
    assert sharded(weight).placements == (R, Shard(0))


def looked_up(mesh: DeviceMesh) -> graph.Capture:
    """Two dims that are sharded become one; what is looked up is pending."""
    model = nn.Sequential(nn.Embedding(4096, 64), nn.Flatten(0, 1))
    ids = torch.zeros(4, 16, dtype=torch.int64)
    settings: dict[str, Any] = {"parameters": {"0.weight": [R, Shard(0)]}}
    return graph.capture(model, (ids,), mesh, topology=TOPOLOGY, **settings)


def only_with(found: graph.Capture, kind: type) -> None:
    """Only labels of ops with a placement of a kind, where there are any."""
    for node in found.program.nodes:
        count = len(found.labelled.candidates[node.index])
        offered = [found.labelled.given(node.index, label)[0] for label in range(count)]
        labels = [at for at, p in enumerate(offered) if p and any(isinstance(x, kind) for x in p)]
        if node.op is not None and labels:
            found.problem.allow(node.index, labels)


@pytest.mark.parametrize("kind", [MaskPartial, StridedShard])
def test_masks_and_strided_shards_come_back(kind: type, mesh_of: MeshOf, path: Path) -> None:
    first, again = looked_up(mesh_of(2, 2)), looked_up(mesh_of(2, 2))
    only_with(first, kind)
    plan = first.solve()
    plan.save(path)
    assert ("_S(" if kind is StridedShard else "Mask") in path.read_text()
    assert again.load(path).solution.labels.tolist() == plan.solution.labels.tolist()


def test_what_was_proved_holds_for_the_same_problem_alone(mesh_of: MeshOf, path: Path) -> None:
    mesh = mesh_of(2, 2)
    plan = captured(mesh, parameters=BY_ROWS).solve()
    plan.save(path)
    assert plan.solution.proved
    free = captured(mesh)
    loaded = free.load(path)
    assert loaded.cost_us == plan.cost_us > free.solve().cost_us
    assert not loaded.solution.proved and math.isinf(loaded.solution.gap)


def test_a_plan_under_other_prices_has_their_cost_and_no_proof(mesh_of: MeshOf, path: Path) -> None:
    mesh = mesh_of(2, 2)
    plan = captured(mesh).solve()
    plan.save(path)
    loaded = captured(mesh, topology="cpu-gloo").load(path)
    assert loaded.cost_us > plan.cost_us
    assert not loaded.solution.proved and math.isinf(loaded.solution.gap)
    assert captured(mesh, topology="cpu-gloo").solve().cost_us <= loaded.cost_us


def test_what_differs_is_told(mesh_of: MeshOf, path: Path) -> None:
    mesh = mesh_of(2, 2)
    first, second = captured(mesh).solve(), captured(mesh, parameters=BY_ROWS).solve()
    second.save(path)
    difference = graph.PlanFile.of(first).diff(graph.PlanFile.load(path))
    assert difference == first.diff(second)
    assert (difference.before_us, difference.after_us) == (first.cost_us, second.cost_us)
    (change,) = [each for each in difference.changes if each.before.name == "up.weight"]
    assert change.after.outputs == ("RS(0)",) != change.before.outputs
    lines = str(difference).splitlines()
    assert any("up.weight" in line and line.rstrip().endswith("RS(0)") for line in lines)
    assert max(map(len, lines)) <= 100
    assert first.diff(first).changes == ()


def test_plans_of_something_else_are_refused(mesh_of: MeshOf, path: Path) -> None:
    mesh = mesh_of(2, 2)
    plan = captured(mesh).solve()
    plan.save(path)
    with pytest.raises(ShardpropError, match=r"plan.json: Expected a plan on a mesh of \(4,\)"):
        captured(mesh_of(4)).load(path)
    other = graph.capture(Mlp(), (torch.ones(8, 16),), mesh, topology=TOPOLOGY)
    with pytest.raises(ShardpropError, match=r"Expected input .* of float32\[8, 16\], got input"):
        other.load(path)
    with pytest.raises(ShardpropError, match="it is of another model, or of another call"):
        other.solve().diff(plan)


class Turned(Mlp):
    """With another argument of one op."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).softmax(self.dim)


def test_plans_of_ops_with_other_arguments_are_refused(mesh_of: MeshOf, path: Path) -> None:
    mesh = mesh_of(2, 2)
    first, second = (graph.capture(Turned(x), (X,), mesh, topology=TOPOLOGY) for x in (0, 1))
    first.solve().save(path)
    with pytest.raises(ShardpropError, match=r"softmax.*, 1, False\).*got .*, 0, False\)"):
        second.load(path)


def test_plans_on_other_mesh_dims_are_refused(mesh_of: MeshOf, path: Path) -> None:
    ranks = mesh_of(2, 2).mesh
    captured(DeviceMesh("cpu", ranks, mesh_dim_names=("dp", "tp"))).solve().save(path)
    with pytest.raises(ShardpropError, match=r"on mesh dims \('tp', 'dp'\), got one on"):
        captured(DeviceMesh("cpu", ranks, mesh_dim_names=("tp", "dp"))).load(path)


def test_what_breaks_a_wish_is_refused(mesh_of: MeshOf, path: Path) -> None:
    mesh = mesh_of(2, 2)
    captured(mesh, parameters={"up.weight": [R, R]}).solve().save(path)
    with pytest.raises(ShardpropError, match=r"plan.json: Expected a plan that does what is wish"):
        captured(mesh, parameters=BY_ROWS).load(path)


BROKEN: dict[str, tuple[Callable[[Any], object], str]] = {
    "format": (lambda v: v.update(format="trace"), r"\$\.format"),
    "version": (lambda v: v.update(version=2), r"\$\.version"),
    "cost": (lambda v: v.update(cost_us=-1.0), r"\$\.cost_us: Expected a number of at least 0"),
    "key": (lambda v: v.update(more=1), r"\$\.more: Expected one of the keys"),
    "node": (lambda v: v["nodes"][1].pop("outputs"), r"\$\.nodes\[1\]\.outputs: Expected"),
    "bound": (lambda v: v.update(lower_bound_us=1e9), "Expected a lower bound of at most the cost"),
    "no bound": (lambda v: v.update(lower_bound_us=None), "Expected a lower bound of a plan that"),
    "layout": (lambda v: v["nodes"][0].update(outputs=["S(7)R"]), r"strategy that is offered for"),
    "count": (lambda v: v["nodes"][0].update(outputs=[]), r"placements of 1 output, got 0"),
    "operands": (lambda v: v["nodes"][-1].update(operands=[]), r"strategy that is offered for"),
    "nodes": (lambda v: v["nodes"].pop(), r"Expected a plan of \d+ nodes, got one of"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_with_a_fault_is_refused_with_its_place(
    name: str, mesh_of: MeshOf, path: Path
) -> None:
    found = captured(mesh_of(2, 2))
    found.solve().save(path)
    values = json.loads(path.read_text())
    change, message = BROKEN[name]
    change(values)
    path.write_text(json.dumps(values))
    with pytest.raises(ShardpropError, match=message):
        found.load(path)


def test_plans_of_an_op_with_fewer_operands_are_compared(mesh_of: MeshOf, path: Path) -> None:
    captured(mesh_of(2, 2)).solve().save(path)
    whole = graph.PlanFile.load(path)
    values = json.loads(path.read_text())
    (read,) = values["nodes"][-1]["operands"]
    values["nodes"][-1]["operands"] = []
    path.write_text(json.dumps(values))
    (change,) = str(whole.diff(graph.PlanFile.load(path))).splitlines()[-1:]
    assert change.split()[-2:] == [read, "absent"]


def test_files_that_cannot_be_read_or_written_are_named(mesh_of: MeshOf, tmp_path: Path) -> None:
    found = captured(mesh_of(2, 2))
    with pytest.raises(ShardpropError, match="Expected a file that can be read"):
        found.load(tmp_path / "none.json")
    with pytest.raises(ShardpropError, match="Expected a file to write to"):
        found.solve().save(tmp_path / "no folder" / "plan.json")
    with pytest.raises(ShardpropError, match="Expected a file to write to"):
        found.solve().save("a\0b")
