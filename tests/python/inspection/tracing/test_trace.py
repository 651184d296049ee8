"""What a trace records, and that it changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, _redistribute
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.placement_types import _MaskPartial

import shardprop
from shardprop import ShardpropError

from ...narrow import known, per_rank, sharded
from ...specs import R, S, spec_of
from .models import Model, batch, dtensor

MeshOf = Callable[..., DeviceMesh]


@pytest.fixture(autouse=True)
def disabled_afterwards() -> Iterator[None]:
    yield
    shardprop.disable()


def test_misses_are_recorded_and_hits_counted(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace() as t:
        for _ in range(3):
            x.sin()
    (decision,) = t.decisions
    assert decision.op == "aten.sin.default"
    assert decision.schema.args_spec[0].placements == (S(0),)
    output = known(decision.output).output_spec
    assert isinstance(output, DTensorSpec) and output.placements == (S(0),)
    assert (decision.decider, decision.reason, decision.error) == ("core", None, None)
    assert (t.hits, t.misses) == (2, 1)
    assert decision.seconds == t.seconds > 0
    assert t.stats.decisions == 1
    assert 0 < decision.at < t.wall_seconds


def test_a_redistribution_of_an_operand_has_op_and_name(mesh_of: MeshOf) -> None:
    a = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace() as t:
        for _ in range(2):
            torch.mm(a, a)
    assert t.misses == 1, "the second is a hit, and moves its operand all the same"
    assert [(r.op, r.operand, r.explicit) for r in t.redistributions] == [
        ("aten.mm.default", "mat2", False)
    ] * 2
    moved = t.redistributions[0]
    assert (moved.src.placements, moved.dst.placements) == ((S(0),), (R,))
    assert moved.plan is not None
    assert [step.kind for step in moved.plan.steps] == ["all_gather"]
    assert moved.wire_bytes == 4 * 8 * 8 // 2
    assert moved.us == pytest.approx(shardprop.plan(moved.src, moved.dst).cost_us)


def test_an_explanation_is_no_event(mesh_of: MeshOf) -> None:
    a = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace() as t:
        torch.mm(a, a)
        found = shardprop.explain(torch.mm, a, a)
        assert found.decision.moves
    assert [d.op for d in t.decisions] == ["aten.mm.default"]
    assert [r.op for r in t.redistributions] == ["aten.mm.default"]


def test_what_a_function_of_torchs_moves_for_an_op_is_the_ops(mesh_of: MeshOf) -> None:
    """torch's dispatcher hands argmax to such a function, which calls `redistribute`."""
    pending = DTensor.from_local(torch.ones(8, 8), mesh_of(2), [Partial()])
    with shardprop.trace() as t:
        pending.argmax()
        pending.redistribute(placements=[R])
    assert [(r.op, r.explicit) for r in t.redistributions] == [
        ("aten.argmax.default", False),
        (None, True),
    ]


def test_collectives_beside_a_mask_are_counted(mesh_of: MeshOf) -> None:
    """Indices of an embedding that are gathered on one mesh dim, and masked on another."""
    mesh = mesh_of(2, 2)
    indices = sharded(dtensor(mesh, (8, 4), [R, S(0)]).long())
    wanted = [_MaskPartial(offset_shape=torch.Size((64, 16)), offset_dim=0), R]
    with shardprop.trace() as t, CommDebugMode() as counted:
        redistributed = indices._spec, spec_of(mesh, (8, 4), wanted, dtype=torch.int64)
        _redistribute.redistribute_local_tensor(indices.to_local(), *redistributed)
    (moved,) = t.redistributions
    assert moved.collectives == counted.get_total_counts() == 1
    assert moved.wire_bytes == 8 * 8 * 4 // 2


def test_operands_in_lists_have_their_place_in_the_name(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2)
    tensors: list[torch.Tensor] = [dtensor(mesh, (8, 8), [p]) for p in (S(1), S(0), S(1))]
    with shardprop.trace() as t:
        torch.cat(tensors)
    moved = {r.operand: (r.src.placements, r.dst.placements) for r in t.redistributions}
    assert set(moved) == {"tensors[1]"}
    assert moved["tensors[1]"] == ((S(0),), (S(1),))


def test_what_the_program_asks_for_is_explicit(mesh_of: MeshOf) -> None:
    x = sharded(dtensor(mesh_of(2), (8, 8), [S(0)]).requires_grad_())
    with shardprop.trace() as t:
        x.redistribute(placements=[R]).sum().backward()
    (there, *_) = t.redistributions
    assert (there.op, there.operand, there.explicit) == (None, None, True)
    assert not there.place.backward
    assert all(r.place.backward for r in t.redistributions[1:])
    assert t.most_expensive() == []


def test_errors_of_propagation_are_recorded(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace() as t, pytest.raises(RuntimeError):
        x.add_(dtensor(mesh_of(4), (8, 8), [R]))
    (decision,) = t.decisions
    assert decision.output is None
    assert decision.error and decision.op == "aten.add_.Tensor"
    assert "errors           1" in str(t)


def test_what_the_core_declines_is_a_fallback_with_its_reason(mesh_of: MeshOf) -> None:
    from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy

    with torch.library._scoped_library("shardprop_test", "FRAGMENT") as library:
        library.define("strange(Tensor x) -> Tensor")
        library.impl("strange", lambda x: x * 2, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_test.strange.default

        @register_single_dim_strategy(op)
        def strange(op, args, kwargs):
            return [[S(7), S(7)]]

        x = dtensor(mesh_of(2), (8, 8), [S(0)])
        with shardprop.trace() as t:
            op(x)
        DTensor._op_dispatcher.sharding_propagator.op_single_dim_strategy_funcs.pop(op)
    (decision,) = t.decisions
    assert decision.decider == "fallback"
    assert decision.reason is not None and decision.reason.startswith("malformed rule: row 0")
    assert t.reasons("fallback") == {decision.reason: 1} == t.stats.fallbacks
    assert decision.reason in " ".join(str(t).split())


def test_an_op_that_torch_decides_has_its_reason(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategies = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    of_torch = strategies[torch.ops.aten.stack.default]
    monkeypatch.setitem(strategies, torch.ops.aten.stack.default, lambda schema: of_torch(schema))
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace() as t:
        torch.stack([x, x])
    assert t.deciders() == {"core": 0, "torch": 1, "fallback": 0}
    assert t.reasons("torch") == {"full-mesh strategy": 1}


def test_decisions_inside_a_decomposition_are_part_of_it(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace() as t:
        torch.ops.aten.soft_margin_loss.default(x, x)
    assert [d.op for d in t.decisions] == ["aten.soft_margin_loss.default"]


def _installed() -> tuple[object, ...]:
    dispatcher = DTensor._op_dispatcher
    module = torch.nn.modules.module
    return (
        dict(vars(dispatcher)),
        {*vars(dispatcher.sharding_propagator)},
        _redistribute.redistribute_local_tensor,
        {**module._global_forward_hooks},
        {**module._global_forward_pre_hooks},
        {**module._global_forward_hooks_always_called},
        shardprop.is_enabled(),
    )


def test_torch_is_left_as_it_was(mesh_of: MeshOf) -> None:
    before = _installed()
    with pytest.raises(KeyError), shardprop.trace():
        assert _installed() != before
        raise KeyError
    assert _installed() == before
    shardprop.enable(policy="optimal", topology="h100-nvlink")
    enabled = _installed()
    with shardprop.trace(), shardprop.trace():
        assert _redistribute.redistribute_local_tensor is not enabled[2]
    assert _installed() == enabled


def test_decisions_that_are_known_stay_known_while_enabled(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    shardprop.enable()
    x.sin()
    with shardprop.trace() as t:
        x.sin()
    assert (t.decisions, t.hits, t.misses) == ([], 1, 0)


def test_enabling_inside_a_trace_is_seen(mesh_of: MeshOf) -> None:
    a = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace() as t:
        torch.mm(a, a)
        shardprop.enable(policy="optimal", topology="h100-nvlink")
        torch.mm(a, a)
    assert [r.policy for r in t.redistributions] == ["torch", "optimal"]
    assert [d.op for d in t.decisions] == ["aten.mm.default"] * 2
    assert [d.policy for d in t.decisions] == ["torch", "optimal"]
    assert t.redistributions[0].us != t.redistributions[1].us


def test_plans_of_policy_optimal_are_those_that_ran(mesh_of: MeshOf) -> None:
    a = dtensor(mesh_of(2, 2), (8, 8), [S(0), S(0)])
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        with shardprop.trace() as t:
            a.redistribute(placements=[S(1), R])
        (moved,) = t.redistributions
        assert moved.plan is not None and moved.plan.policy == "optimal"
        assert moved.plan == shardprop.plan(moved.src, moved.dst)


def test_torchs_plans_can_have_other_prices(mesh_of: MeshOf) -> None:
    a = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace(topology="h100-nvlink") as t:
        torch.mm(a, a)
    (moved,) = t.redistributions
    priced = shardprop.plan(moved.src, moved.dst, policy="torch", topology="h100-nvlink")
    assert moved.us == priced.cost_us != shardprop.plan(moved.src, moved.dst).cost_us


def test_nested_traces_have_the_events_of_their_own_block(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace() as outer:
        x.sin()
        with shardprop.trace() as inner:
            x.cos()
        x.exp()
    assert [d.op for d in inner.decisions] == ["aten.cos.default"]
    assert [d.op.split(".")[1] for d in outer.decisions] == ["sin", "cos", "exp"]


def test_events_of_all_threads_are_recorded(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2)
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        x = dtensor(mesh, (8, 8 + number), [S(0)])
        barrier.wait()
        x.redistribute(placements=[R])
        x.sin()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    with shardprop.trace() as t:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    sines = [d for d in t.decisions if d.op == "aten.sin.default"]
    assert sorted(d.schema.args_spec[0].shape[1] for d in sines) == [8, 9, 10, 11]
    assert len({d.thread for d in sines}) == 4
    assert sum(r.explicit for r in t.redistributions) == 4
    assert t.to_json()["threads"] == 4


def test_past_the_limit_events_are_counted(mesh_of: MeshOf) -> None:
    a = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.trace(limit=2) as t:
        for _ in range(4):
            torch.mm(a, a)
    assert len(t.decisions) + len(t.redistributions) == 2
    assert t.dropped == 3
    assert "not held         3 events" in str(t)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"limit": 0}, "limit: Expected a count of events above 0, got 0"),
        ({"limit": True}, "limit: Expected a count of events above 0, got True"),
        ({"model": "model"}, "model: Expected a torch.nn.Module, got a str"),
        ({"topology": "none such"}, "none such"),
    ],
)
def test_bad_arguments_are_refused(given: dict[str, object], says: str) -> None:
    before = _installed()
    with pytest.raises(ShardpropError, match=says), shardprop.trace(**given):  # type: ignore[arg-type]
        raise AssertionError("the block must not be entered")
    assert _installed() == before


def test_a_model_is_given_once() -> None:
    model = torch.nn.Linear(2, 2)
    with (
        pytest.raises(ShardpropError, match="Expected model or root, got both"),
        shardprop.trace(model, root=model),
    ):
        raise AssertionError("the block must not be entered")


def test_losses_and_gradients_are_the_same_bit_for_bit(mesh_of: MeshOf) -> None:
    def step() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Model(mesh_of(2))
        loss = model(batch(mesh_of(2)))
        loss.backward()
        return [loss.to_local(), *(sharded(p.grad).to_local() for p in model.parameters())]

    with shardprop.enabled():
        alone = step()
        with shardprop.trace():
            traced = step()
    assert len(alone) == 3
    assert all(map(torch.equal, alone, traced))


def test_one_process_for_all_ranks_is_traced() -> None:
    from torch.distributed._local_tensor import LocalTensorMode

    with shardprop.trace() as t, LocalTensorMode(4):
        mesh = DeviceMesh("cpu", torch.arange(4).reshape(2, 2))
        x = dtensor(mesh, (5, 6), [S(0), S(1)])
        result = sharded(torch.mm(x, dtensor(mesh, (6, 7), [S(1), R]))).full_tensor()
    assert torch.equal(per_rank(result).reconcile(), torch.full((5, 7), 6.0))
    assert "aten.mm.default" in {d.op for d in t.decisions}
    assert t.to_json()["summary"]["collectives"] > 0


@pytest.mark.slow
def test_decisions_of_a_compiled_program_are_recorded(mesh_of: MeshOf) -> None:
    a = dtensor(mesh_of(2), (8, 8), [S(0)])
    model = torch.compile(torch.nn.Sequential(Product()), backend="aot_eager", fullgraph=True)
    with shardprop.enabled():
        expected = sharded(torch.mm(a, a).sin()).to_local()
        shardprop.clear_caches()
        with shardprop.trace() as t:
            result = model(a)
    assert torch.equal(result.to_local(), expected)
    assert "aten.mm.default" in {d.op for d in t.decisions}
    assert "mat2" in {r.operand for r in t.redistributions}
    torch.compiler.reset()


class Product(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, x).sin()


def test_a_trace_does_not_compile_again_what_was_compiled(mesh_of: MeshOf) -> None:
    a = dtensor(mesh_of(2), (8, 8), [S(0)])
    seen = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        seen.append(graph)
        return graph.forward

    model = torch.compile(torch.nn.Sequential(Product()), backend=backend)
    with shardprop.enabled():
        model(a)
        before = len(seen)
        with shardprop.trace() as t:
            model(a)
        model(a)
    torch.compiler.reset()
    assert [r.place.module for r in t.redistributions] == ["Sequential"]
    assert len(seen) == before


def test_fsdp_is_traced_and_changes_nothing(mesh_of: MeshOf) -> None:
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))

    def step() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Model(mesh["tp"])
        for block in model.blocks:
            fully_shard(block, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
        loss = model(batch(mesh["tp"]))
        loss.backward()
        torch.optim.AdamW(model.parameters(), foreach=True).step()
        return [loss.to_local(), *(sharded(p.detach()).to_local() for p in model.parameters())]

    with shardprop.enabled():
        alone = step()
        with shardprop.trace() as t:
            traced = step()
    assert len(alone) == 3
    assert all(map(torch.equal, alone, traced))
    forward = [d.place.module for d in t.decisions if d.op == "aten.mm.default"]
    moved = {r.place.module for r in t.redistributions if r.op == "aten.mm.default"}
    assert {module.removeprefix("FSDP") for module in {*forward, *moved}} == {
        "Model.blocks.0",
        "Model.blocks.1",
    }
    assert t.to_json()["summary"]["errors"] == 0


def test_a_decision_is_not_explained_with_other_settings(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"), shardprop.trace() as t:
        torch.mm(x, x)
    with (
        shardprop.enabled(policy="optimal", topology="b200-nvlink"),
        pytest.raises(ShardpropError, match="Enable those of the trace"),
    ):
        t.explain(0)
    with shardprop.enabled(policy="optimal", topology="h100-nvlink"):
        assert t.explain(0).decision.policy == "optimal"
