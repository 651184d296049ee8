"""enable() and disable(): who decides, what is counted, and that torch is left as it was."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import (
    DTensor,
    Placement,
    _collective_utils,
    _redistribute,
    distribute_tensor,
)
from torch.distributed.tensor._op_schema import OpSchema, StrategyType
from torch.distributed.tensor._ops.single_dim_strategy import register_single_dim_strategy
from torch.distributed.tensor._ops.utils import generate_redistribute_costs

import shardprop
from shardprop import ShardpropError
from shardprop.propagation import propagator

from ..narrow import per_rank, sharded
from ..specs import P, R, S, spec_of

aten = torch.ops.aten
MeshOf = Callable[..., DeviceMesh]


@pytest.fixture(autouse=True)
def disabled_afterwards() -> Iterator[None]:
    shardprop.reset_stats()
    yield
    shardprop.disable()


def dtensor(mesh: DeviceMesh, shape: tuple[int, ...], placements: list[Placement]) -> DTensor:
    return distribute_tensor(torch.ones(shape), mesh, placements, src_data_rank=None)


def test_the_core_decides_only_while_enabled(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2, 2), (8, 8), [S(0), R])
    torch.mm(x, x)
    assert shardprop.stats().decisions == 0
    with shardprop.enabled():
        assert shardprop.is_enabled()
        torch.mm(x, x)
        assert shardprop.stats().decisions == 1
        torch.mm(x, x)
        assert shardprop.stats().decisions == 1, "the second call hits torch's cache"
    torch.mm(x, x)
    assert not shardprop.is_enabled()
    assert shardprop.stats().decisions == 1


def test_statistics_are_printed_a_line_for_each_reason(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2, 2), (8, 8), [S(0), R])
    with shardprop.enabled():
        torch.mm(x, x)
    assert str(shardprop.stats()).startswith("1 decision by the core, ")
    stats = dataclasses.replace(
        shardprop.stats(), decisions=2, fallbacks={"too strange": 3, "too new": 1}, caches={}
    )
    first, *others = str(stats).splitlines()
    assert first.startswith("2 decisions by the core, ")
    assert others == [
        "3 fallback to torch: too strange",
        "1 fallback to torch: too new",
        "0 entries in caches, 0.0 MB",
    ]


def test_disable_leaves_torch_as_it_was() -> None:
    prop = DTensor._op_dispatcher.sharding_propagator
    before = (
        dict(vars(prop)).keys(),
        _collective_utils.redistribute_cost,
        generate_redistribute_costs.__globals__["redistribute_cost"],
        _redistribute._gen_transform_infos,
        _redistribute._gen_transform_infos_non_cached,
    )
    shardprop.enable()
    assert _redistribute._gen_transform_infos is not before[3]
    shardprop.enable()
    shardprop.disable()
    after = (
        dict(vars(prop)).keys(),
        _collective_utils.redistribute_cost,
        generate_redistribute_costs.__globals__["redistribute_cost"],
        _redistribute._gen_transform_infos,
        _redistribute._gen_transform_infos_non_cached,
    )
    assert after == before


def test_enabled_restores_what_was_before() -> None:
    shardprop.enable()
    with shardprop.enabled():
        pass
    assert shardprop.is_enabled()


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ShardpropError, match="Expected policy 'torch' or 'optimal', got 'fastest'"):
        shardprop.enable(policy="fastest")
    assert not shardprop.is_enabled()


def test_a_full_mesh_strategy_of_the_program_is_counted_as_delegated(
    mesh_of: MeshOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategies = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    torch_strategy = strategies[torch.ops.aten.stack.default]

    def own(schema: OpSchema) -> StrategyType:
        return torch_strategy(schema)

    monkeypatch.setitem(strategies, torch.ops.aten.stack.default, own)
    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.enabled():
        assert sharded(torch.stack([x, x])).placements == (S(1),)
    assert shardprop.stats().delegated == {"full-mesh strategy": 1}
    assert shardprop.stats().decisions == 0


def test_a_number_read_out_of_a_tensor_is_a_decision(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2), (), [R])
    with shardprop.enabled():
        x.item()
    assert shardprop.stats().delegated == {}
    assert shardprop.stats().decisions == 1


def test_a_rule_registered_later_is_seen(mesh_of: MeshOf) -> None:
    with torch.library._scoped_library("shardprop_test", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_test.twice.default
        shardprop.enable()

        @register_single_dim_strategy(op)
        def twice(op, args, kwargs):
            return [[S(0), S(0)]]

        x = dtensor(mesh_of(2), (8, 8), [S(1)])
        assert op(x).placements == (R,)
        assert shardprop.stats().decisions == 1
        DTensor._op_dispatcher.sharding_propagator.op_single_dim_strategy_funcs.pop(op)


def test_a_malformed_rule_goes_to_torch_and_is_counted(mesh_of: MeshOf) -> None:
    with torch.library._scoped_library("shardprop_test", "FRAGMENT") as library:
        library.define("odd(Tensor x) -> Tensor")
        library.impl("odd", lambda x: x * 2, "CompositeExplicitAutograd")
        op = torch.ops.shardprop_test.odd.default

        @register_single_dim_strategy(op)
        def odd(op, args, kwargs):
            return [[S(7), S(7)]]

        x = dtensor(mesh_of(2), (8, 8), [S(0)])
        with shardprop.enabled():
            assert op(x).placements == (R,)
        (reason,) = shardprop.stats().fallbacks
        assert reason.startswith("malformed rule: row 0, operand 0: ")
        with (
            shardprop.enabled(strict=True),
            pytest.raises(RuntimeError, match=r"odd.default: malformed rule: row 0, operand 0"),
        ):
            op(x)
        DTensor._op_dispatcher.sharding_propagator.op_single_dim_strategy_funcs.pop(op)


def test_a_fault_of_a_registered_rule_is_no_refusal_of_torchs(mesh_of: MeshOf) -> None:
    def faulty(op: Any, args: Any, kwargs: Any) -> Any:
        raise ValueError("test fault")

    x = dtensor(mesh_of(2), (8, 8), [S(0)])
    with shardprop.temporary_rules(), shardprop.enabled():
        shardprop.register_single_dim_rule(torch.ops.aten.sin.default, override=True)(faulty)
        with pytest.raises(RuntimeError, match="test fault"):
            torch.sin(x)
    assert shardprop.stats().refused == {}


def test_an_error_is_worded_by_torch(mesh_of: MeshOf) -> None:
    def message() -> str:
        x = dtensor(mesh_of(2), (8, 8), [S(0)])
        with pytest.raises(RuntimeError) as caught:
            x.add_(dtensor(mesh_of(4), (8, 8), [R]))
        return str(caught.value)

    alone = message()
    with shardprop.enabled():
        assert message() == alone


def test_equal_elements_of_a_list_op_are_decided_once(mesh_of: MeshOf) -> None:
    tensors: list[torch.Tensor] = [dtensor(mesh_of(2, 2), (8, 8), [S(0), R]) for _ in range(50)]
    odd: list[torch.Tensor] = [dtensor(mesh_of(2, 2), (6, 8), [R, S(1)])]
    with shardprop.enabled():
        results = torch._foreach_add(tensors + odd, 1.0)
    assert [sharded(r).placements for r in results] == [(S(0), R)] * 50 + [(R, S(1))]
    assert results[50].shape == (6, 8)
    assert shardprop.stats().decisions == 1


def test_clear_caches_forgets_decisions_and_plans(mesh_of: MeshOf) -> None:
    x = dtensor(mesh_of(2, 2), (8, 8), [S(0), R])
    with shardprop.enabled():
        x.redistribute(placements=[R, S(0)])
        torch.mm(x, x)
        assert shardprop.stats().cache_entries > 0
        assert shardprop.stats().cache_bytes > 0
        shardprop.clear_caches()
        assert shardprop.stats().cache_entries == 0
        torch.mm(x, x)
    assert shardprop.stats().decisions == 2


def test_threads_decide_as_one_does(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)
    specs = [
        (spec_of(mesh, (8 + i, 16), [S(i % 2), P]), spec_of(mesh, (16, 8), [R, S(i % 2)]))
        for i in range(40)
    ]
    serial = [shardprop.propagate(aten.mm.default, a, b).operands for a, b in specs]
    barrier = threading.Barrier(8)
    found: list[list[object]] = []

    def work() -> None:
        barrier.wait()
        found.append([shardprop.propagate(aten.mm.default, a, b).operands for a, b in specs])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [serial] * 8


def test_local_tensor_mode_gives_the_same_data(mesh_of: MeshOf) -> None:
    from torch.distributed._local_tensor import LocalTensorMode

    def run() -> torch.Tensor:
        with LocalTensorMode(4):
            mesh = DeviceMesh("cpu", torch.arange(4).reshape(2, 2))
            x = distribute_tensor(torch.arange(30.0).reshape(5, 6), mesh, [S(0), S(1)])
            y = distribute_tensor(torch.arange(42.0).reshape(6, 7), mesh, [S(1), R])
            return per_rank(sharded(torch.mm(x, y)).full_tensor()).reconcile()

    alone = run()
    with shardprop.enabled():
        assert torch.equal(run(), alone)
    assert shardprop.stats().decisions > 0


def test_min_cost_plans_are_honoured(mesh_of: MeshOf) -> None:
    src = spec_of(mesh_of(2, 4), (64, 64), [S(0), S(0)])
    dst = spec_of(mesh_of(2, 4), (64, 64), [R, S(0)])
    greedy = propagator.torch_planner().plan(src, dst)
    with _redistribute.use_min_cost_redistribution_plan():
        least = propagator.torch_planner().plan(src, dst)
    assert not greedy.by_graph
    assert least.by_graph
    assert [s.mesh_dim for s in greedy.steps] == [1, 0, 1]


def test_plans_held_are_those_of_the_mesh_not_of_its_address() -> None:
    with shardprop.enabled():
        shardprop.clear_caches()
        for ranks, expected in ((2, (4, 8)), (4, (2, 8))) * 5:
            mesh = DeviceMesh("cpu", torch.arange(ranks))
            x = distribute_tensor(torch.ones(8, 8), mesh, [S(1)], src_data_rank=None)
            assert x.redistribute(placements=[S(0)]).to_local().shape == expected
            del mesh, x
        assert shardprop.stats().caches["plans"].entries == 2
