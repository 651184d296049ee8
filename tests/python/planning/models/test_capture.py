"""The problem of a model, and the plan that solves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Replicate, Shard

from shardprop import ShardpropError, graph
from shardprop._torch import make_spec
from shardprop.cost.compute import ComputeCost
from shardprop.planning.models.layouts import plain_layouts
from shardprop.planning.strategies.local_shapes import largest_shard
from shardprop.propagation.policy_settings import exact_planner

from ...narrow import known
from .models import Mlp, Transformer

MeshOf = Callable[..., DeviceMesh]
TOPOLOGY = "h100-nvlink"
R = Replicate()


def model() -> nn.Module:
    """Large enough that bytes count for more than latencies."""
    with torch.device("meta"):
        return Transformer(layers=2, dim=2048, heads=16, vocab=16384, seq=1024)


def tokens() -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.empty(32, 1024, dtype=torch.int64, device="meta")
    return made, made


def captured(mesh: DeviceMesh, **settings: Any) -> graph.Capture:
    return graph.capture(model(), tokens(), mesh, topology=TOPOLOGY, **settings)


def parameter_bytes(model: nn.Module) -> int:
    return sum(p.numel() * p.itemsize for p in model.parameters())


def held_bytes(plan: graph.ModelPlan) -> int:
    total = 0
    for name, placements in plan.placements().parameters.items():
        meta = plan.program.nodes[plan.program.parameters[name]].outputs[0]
        assert meta is not None
        shape = largest_shard(meta.shape, plan.mesh.shape, placements)
        total += torch.Size(shape).numel() * meta.dtype.itemsize
    return total


@pytest.mark.slow
def test_the_cost_is_that_of_every_op_and_redistribution_priced_alone(mesh_of: MeshOf) -> None:
    """The problem's tables against single prices: of ops by `ComputeCost.us`, of moves by
    `ExactPlanner.price`."""
    mesh = mesh_of(2, 2)
    plan = captured(mesh, parameter_memory=0.4 * parameter_bytes(model())).solve()
    planner, compute = exact_planner(TOPOLOGY), ComputeCost(TOPOLOGY)
    total = 0.0
    for node in plan.program.nodes:
        for ref, dst in zip(node.operands, plan.wanted(node.index), strict=True):
            src, meta = known(plan.given(ref.node)[ref.output]), plan.program.meta(ref)
            total += planner.price(make_spec(mesh, src, meta), make_spec(mesh, dst, meta)).us
        if node.op is not None:
            total += compute.us(node.op, *_local(plan, node))
    assert plan.solution.proved
    assert total == pytest.approx(plan.cost_us, rel=1e-9)
    assert plan.volume.collectives > 0


def _local(plan: graph.ModelPlan, node: Any) -> tuple[Any, Any, Any]:
    """The arguments and outputs of a node with local shapes, all of which divide evenly here."""
    from shardprop._torch import TensorMeta
    from shardprop.planning.models.program import fill

    def local(meta: Any, placements: Any) -> Any:
        if meta is None:
            return None
        cut = [1] * len(meta.shape)
        for mesh_dim, placement in enumerate(placements):
            if hasattr(placement, "dim"):
                cut[placement.dim] *= plan.mesh.size(mesh_dim)
        shape = torch.Size(-(-size // n) for size, n in zip(meta.shape, cut, strict=True))
        strides = torch.empty(shape, device="meta").stride()
        # What is expanded is read once.
        strides = tuple(s if of else 0 for s, of in zip(strides, meta.stride, strict=True))
        return TensorMeta(shape, strides, meta.dtype)

    wanted = iter(plan.wanted(node.index))

    def of(ref: Any) -> Any:
        return local(plan.program.meta(ref), next(wanted))

    args, kwargs = fill(node.args, of), fill(node.kwargs, of)
    given = plan.given(node.index)
    outputs = [local(meta, p) for meta, p in zip(node.outputs, given, strict=True)]
    return args, kwargs, outputs


@pytest.mark.slow
def test_every_label_that_was_chosen_fits_its_neighbours(mesh_of: MeshOf) -> None:
    found = captured(mesh_of(2, 2))
    evaluation = found.problem.check(found.solve().solution.labels)
    assert evaluation.feasible
    assert not evaluation.violations


@pytest.mark.slow
def test_gradients_lie_like_their_parameters_and_outputs(mesh_of: MeshOf) -> None:
    plan = captured(mesh_of(2, 2), parameter_memory=0.3 * parameter_bytes(model())).solve()
    for name, gradient in plan.program.gradients.items():
        assert plan.given(gradient) == plan.given(plan.program.parameters[name])
    for output, tangent in plan.program.tangents:
        assert plan.given(output) == plan.given(tangent)


@pytest.mark.slow
def test_strided_strategies_can_only_help(mesh_of: MeshOf) -> None:
    for mesh in (mesh_of(2, 2), mesh_of(2, 4)):
        limit = 0.3 * parameter_bytes(model())
        costs = [
            captured(mesh, strided=strided, parameter_memory=limit).solve().cost_us
            for strided in (True, False)
        ]
        assert costs[0] <= costs[1] * (1 + 1e-9)


@pytest.mark.slow
def test_no_strided_shard_where_they_are_left_out(mesh_of: MeshOf) -> None:
    found = captured(mesh_of(2, 2), strided=False)
    for candidates in found.labelled.candidates:
        for number in {*candidates.outputs.flat, *candidates.operands.flat} - {-1}:
            assert not any(hasattr(p, "split_factor") for p in found.labelled.layouts[number])


@pytest.mark.slow
def test_memory_of_parameters_is_kept(mesh_of: MeshOf) -> None:
    whole = parameter_bytes(model())
    costs = []
    for part in (1.0, 0.5, 0.26):
        plan = captured(mesh_of(2, 2), parameter_memory=part * whole).solve()
        assert plan.solution.proved
        assert held_bytes(plan) <= part * whole
        costs.append(plan.cost_us)
    assert costs == sorted(costs)


@pytest.mark.slow
def test_memory_is_kept_where_many_plans_cost_nearly_the_same(mesh_of: MeshOf) -> None:
    """A small model: latencies count for most, and the relaxation is a few percent off."""
    small = Transformer(layers=2)
    limit = 0.4 * parameter_bytes(small)
    ids = torch.zeros(8, 16, dtype=torch.int64)
    found = graph.capture(
        small, (ids, ids), mesh_of(2, 2), topology=TOPOLOGY, parameter_memory=limit
    )
    plan = found.solve()
    assert plan.solution.proved
    assert held_bytes(plan) <= limit


@pytest.mark.slow
def test_too_little_memory_is_refused_by_name(mesh_of: MeshOf) -> None:
    with pytest.raises(graph.InfeasibleError, match="memory of the parameters"):
        captured(mesh_of(2, 2), parameter_memory=1000).solve()


@pytest.mark.slow
def test_wishes_are_followed(mesh_of: MeshOf) -> None:
    plan = captured(
        mesh_of(2, 2),
        inputs=[[Shard(0), R], None],
        outputs=[[R, R]],
        parameters={"layers.1.mlp.up.weight": [R, Shard(0)], "layers.*.mlp.*": [R, R]},
    ).solve()
    placed = plan.placements()
    assert placed.inputs[0] == (Shard(0), R)
    assert placed.outputs == ((R, R),)
    assert placed.parameters["layers.1.mlp.up.weight"] == (R, Shard(0))
    assert placed.parameters["layers.0.mlp.up.weight"] == (R, R)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inputs": [[Shard(0), R]]}, "inputs: Expected placements or None for each of 2"),
        ({"inputs": [[Shard(7), R], None]}, r"wish for input_0: .*shape \(32, 1024\)"),
        ({"inputs": [[Partial(), R], None]}, "wish for input_0"),
        ({"parameters": {"nothing.*": [R, R]}}, r"names of parameters.*nothing\.\*"),
        ({"topology": "torch"}, "compute"),
        ({"topology": "no such"}, "no such"),
    ],
    ids=["too few inputs", "no such dim", "partial", "no such parameter", "no compute", "topology"],
)
def test_wishes_that_fit_nothing_are_refused(
    mesh_of: MeshOf, settings: dict[str, Any], message: str
) -> None:
    settings = {"topology": TOPOLOGY, **settings}
    with pytest.raises(ShardpropError, match=message):
        graph.capture(model(), tokens(), mesh_of(2, 2), **settings)


def test_inputs_that_are_no_tuple_are_refused(mesh_of: MeshOf) -> None:
    with pytest.raises(ShardpropError, match="tuple of arguments, got a Tensor"):
        graph.capture(Mlp(), torch.ones(4, 16), mesh_of(2), topology=TOPOLOGY)  # type: ignore[arg-type]


def test_what_is_written_into_a_part_of_a_tensor_is_planned(mesh_of: MeshOf) -> None:
    class Spread(nn.Module):
        """One column is written into all others."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            spread = x.new_zeros(x.shape)
            spread[:, 1:] = x[:, :1]
            return spread * 2

    x = torch.arange(1024 * 64).view(1024, 64)
    layout = (Shard(0), Replicate())
    wishes: dict[str, Any] = {"inputs": [layout], "outputs": [layout], "backward": False}
    found = graph.capture(Spread(), (x,), mesh_of(2, 2), topology=TOPOLOGY, **wishes)
    copies = [node.index for node in found.program.nodes if node.op is torch.ops.aten.copy.default]
    plan = found.solve()
    assert copies and not found.without_rule and not found.cannot_run
    assert not plan.redistributions  # nothing is moved
    assert all(plan.given(node) == (layout,) for node in copies)


def test_an_op_without_a_rule_runs_whole_and_is_named(mesh_of: MeshOf) -> None:
    class Distances(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cdist(self.linear(x), x)

    found = graph.capture(Distances(), (torch.ones(16, 16),), mesh_of(2, 2), topology=TOPOLOGY)
    op = "aten._cdist_forward.default"
    assert "rule" in found.without_rule[op], found.without_rule
    plan = found.solve()
    (node,) = [n for n in plan.program.nodes if str(n.op) == op]
    assert set(plan.wanted(node.index)) == {(R, R)}


@pytest.mark.slow
def test_a_plan_is_the_same_each_time(mesh_of: MeshOf) -> None:
    first, second = (captured(mesh_of(2, 2)).solve() for _ in range(2))
    assert first.cost_us == second.cost_us
    assert first.placements() == second.placements()


@pytest.mark.slow
def test_constraints_may_be_added_to_the_problem(mesh_of: MeshOf) -> None:
    found = captured(mesh_of(2, 2))
    free = found.solve()
    node = found.program.parameters["head.weight"]
    found.problem.forbid(node, [int(free.solution.labels[node])])
    bound = found.solve(warm=free.solution)
    assert (
        bound.placements().parameters["head.weight"] != free.placements().parameters["head.weight"]
    )
    assert bound.cost_us >= free.cost_us * (1 - 1e-9)


@pytest.mark.slow
def test_the_report_adds_up(mesh_of: MeshOf) -> None:
    plan = captured(mesh_of(2, 2), parameter_memory=0.3 * parameter_bytes(model())).solve()
    report = plan.report()
    assert sum(costs.us for costs in report.modules.values()) == pytest.approx(plan.cost_us)
    assert sum(c.volume.collectives for c in report.modules.values()) == plan.volume.collectives
    assert set(report.baselines) == {"data parallel", "FSDP-like", "Megatron-like"}
    text = str(report)
    for shown in ("layers.1", "embedding", "Megatron-like", "no plan costs less"):
        assert shown in text
    assert max(map(len, text.splitlines())) <= 100
    values = report.to_json()
    assert values["modules"]["head"]["parameters"]["weight"]
    assert values["cost_us"] == plan.cost_us


@pytest.mark.slow
def test_no_baseline_is_cheaper_than_a_plan_that_is_free(mesh_of: MeshOf) -> None:
    report = captured(mesh_of(2, 2)).solve().report(depth=None)
    for name, costs in report.baselines.items():
        assert costs is not None, report.why_not[name]
        assert sum(costs.values()) >= report.cost_us * (1 - 1e-9)


def test_layouts_leave_no_rank_without_a_row(mesh_of: MeshOf) -> None:
    layouts = plain_layouts((3, 2), mesh_of(2, 4))
    assert (Shard(0), R) in layouts
    assert (R, Shard(0)) not in layouts  # 3 rows for 4 ranks
    assert (Shard(1), Shard(0)) not in layouts
    assert layouts[0] == (R, R)
    assert plain_layouts((), mesh_of(2, 2)) == [(R, R)]
    assert plain_layouts((0, 4), mesh_of(2)) == [(R,), (Shard(1),)]


def test_a_graph_of_fx_is_a_model(mesh_of: MeshOf) -> None:
    traced = torch.fx.symbolic_trace(Mlp())
    costs = [
        graph.capture(model, (torch.ones(64, 16),), mesh_of(2, 2), topology=TOPOLOGY)
        .solve()
        .cost_us
        for model in (traced, Mlp())
    ]
    assert costs[0] == costs[1]


@pytest.mark.slow
def test_wishes_that_contradict_are_named(mesh_of: MeshOf) -> None:
    found = captured(
        mesh_of(2, 2),
        parameters={"head.weight": [R, R]},
        parameter_memory=0.26 * parameter_bytes(model()),
    )
    with pytest.raises(graph.InfeasibleError) as caught:
        found.solve()
    assert {"memory of the parameters", "wish for parameter head.weight"} <= {*caught.value.reasons}
