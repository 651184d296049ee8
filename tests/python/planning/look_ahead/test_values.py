"""Decisions that look at who consumes the output: against every strategy of pairs of ops, and what
is looked through."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec

import shardprop
from shardprop.cost.topology import load_topology
from shardprop.metadata import output_meta
from shardprop.planning.look_ahead.computing import Computing
from shardprop.planning.look_ahead.consumers import Consumers, Use, call_key
from shardprop.planning.look_ahead.uses import strategies_of_use
from shardprop.propagation.core_call import prepare
from shardprop.propagation.output_prices import choose_cheapest
from shardprop.propagation.route import route_of
from shardprop.rules import torch_registry
from shardprop.rules.rule import RowsRule

from ...optimal.enabled import fresh_mesh
from ...specs import P, R, S, meta_of, spec_of

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten

SIZE = 4096
# They do not say how fast devices compute: only what is moved counts.
TOPOLOGIES: dict[str, Any] = {
    "torch": "torch",
    "launches": {
        "launch_us": 100.0,
        "memory": {"kernel_us": 1.0, "bandwidth_gb_s": 1e3},
        "node": {"within": {"latency_us": 0.1, "bandwidth_gb_s": 1e3}},
    },
}
OPS = (aten.mm.default, aten.add.Tensor, aten.mul.Tensor)


@pytest.fixture(autouse=True)
def disabled_afterwards() -> Iterator[None]:
    yield
    shardprop.disable()


def known(op: Any, args: tuple[Any, ...], *uses: Use, runs: int = 1) -> Consumers:
    """Who consumes the one output of a call."""
    seen, key = Consumers(), call_key(op, args, {})
    assert key is not None
    for _ in range(runs):
        seen.ran(key)
    for use in uses:
        seen.used(key, 0, use)
    return seen


def _twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def use_as_first(op: Any, spec: DTensorSpec, other: DTensorSpec) -> Use:
    return Use(op, (spec, other), {}, (0,))


def best_of_two(
    mesh: DeviceMesh, op: Any, operands: tuple[DTensorSpec, ...], then: Any, other: DTensorSpec
) -> float:
    """The least price of an op and the next, by pricing each strategy of the first."""
    sources = [[tuple(spec.placements)] for spec in operands]
    metas = [spec.tensor_meta for spec in operands]
    found = shardprop.strategies(
        op, metas, mesh=mesh, sources=sources, prices=shardprop.ExactPlanner(topology_of_policy())
    )
    assert found.prices is not None
    least = float("inf")
    for index, strategy in enumerate(found):
        cost = sum(float(prices[index, 0]) for prices in found.prices)
        (output,) = strategy.outputs
        if cost < least:
            between = spec_of(mesh, (SIZE, SIZE), output or ())
            least = min(least, cost + shardprop.propagate(then, between, other).cost)
    return least


def topology_of_policy() -> Any:
    from shardprop.propagation.propagator import current_policy

    return current_policy().planner.topology  # type: ignore[attr-defined]


def random_layout(rng: random.Random, mesh_dims: int) -> tuple[Placement, ...]:
    return tuple(rng.choice([R, S(0), S(1), P]) for _ in range(mesh_dims))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(4,), (2, 4)], ids=str)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_two_ops_are_the_cheapest_together(
    mesh_of: MeshOf, sizes: tuple[int, ...], topology: str
) -> None:
    mesh, rng = mesh_of(*sizes), random.Random(f"{sizes} {topology}")
    prices = TOPOLOGIES[topology]
    better = 0
    for _ in range(60):
        op, then = rng.choice(OPS), rng.choice(OPS)
        x, y, other = (
            spec_of(mesh, (SIZE, SIZE), random_layout(rng, len(sizes))) for _ in range(3)
        )
        with shardprop.enabled(policy="optimal", topology=prices, rules="torch"):
            alone = shardprop.propagate(op, x, y)
            after = spec_of(mesh, (SIZE, SIZE), alone.outputs[0] or ())
            apart = alone.cost + shardprop.propagate(then, after, other).cost
            least = best_of_two(mesh, op, (x, y), then, other)
        seen = known(op, (x, y), use_as_first(then, after, other))
        with shardprop.enabled(
            policy="optimal", topology=prices, consumers=seen, horizon=1, rules="torch"
        ):
            together = shardprop.propagate(op, x, y)
        total = together.cost + together.output_cost
        assert total == pytest.approx(least), (op, then, x.placements, y.placements)
        assert total <= apart + 1e-6
        better += total < apart - 1e-6
    assert better >= 3


def test_an_output_that_is_redistributed_goes_where_it_is_wanted(mesh_of: MeshOf) -> None:
    mesh = mesh_of(8)
    x, w = spec_of(mesh, (SIZE, SIZE), [S(1)]), spec_of(mesh, (SIZE, SIZE), [S(0)])
    wanted = spec_of(mesh, (SIZE, SIZE), [S(1)])
    seen = known(aten.mm.default, (x, w), Use(None, (wanted,), {}, (0,)))
    optimal: dict[str, Any] = {"policy": "optimal", "topology": "torch"}
    with shardprop.enabled(**optimal, consumers=seen):
        decided = shardprop.propagate(aten.mm.default, x, w)
        priced = shardprop.redistribute_cost(
            spec_of(mesh, (SIZE, SIZE), decided.outputs[0] or ()), wanted
        )
    assert decided.output_cost == pytest.approx(priced)


def test_what_only_passes_it_on_is_looked_through(mesh_of: MeshOf) -> None:
    """A view that keeps the layout costs nothing: what counts is who takes the view."""
    mesh = mesh_of(8)
    x = spec_of(mesh, (SIZE, SIZE), [S(0)])
    made = spec_of(mesh, (SIZE, SIZE), [S(0)])
    viewed = spec_of(mesh, (SIZE * SIZE,), [S(0)])
    wanted = spec_of(mesh, (SIZE * SIZE,), [R])
    seen = known(aten.relu.default, (x,), Use(aten.view.default, (made, [SIZE * SIZE]), {}, (0,)))
    key = call_key(aten.view.default, (made, [SIZE * SIZE]), {})
    seen.ran(key)
    seen.used(key, 0, Use(None, (wanted,), {}, (0,)))
    with shardprop.enabled(policy="optimal", topology="torch", consumers=seen):
        decided = shardprop.propagate(aten.relu.default, x)
        gathered = shardprop.redistribute_cost(viewed, wanted)
        first = shardprop.redistribute_cost(x, spec_of(mesh, (SIZE, SIZE), [R]))
    total = decided.cost + decided.output_cost
    assert total == pytest.approx(min(gathered, first)) and total > 0


def test_consumers_count_by_their_share(mesh_of: MeshOf) -> None:
    """Of two calls, which torch decides as one, one output is gathered."""
    mesh = mesh_of(8)
    x, whole = (spec_of(mesh, (SIZE, SIZE), [p]) for p in (S(0), R))
    use = Use(None, (whole,), {}, (0,))
    costs = []
    for runs in (1, 2):
        seen = known(aten.relu.default, (x,), use, runs=runs)
        with shardprop.enabled(policy="optimal", topology="torch", consumers=seen):
            decided = shardprop.propagate(aten.relu.default, x)
            costs.append(decided.cost + decided.output_cost)
    assert costs[1] == pytest.approx(costs[0] / 2) and costs[0] > 0


def test_a_consumer_that_cannot_be_asked_wants_no_partial(mesh_of: MeshOf) -> None:
    mesh = mesh_of(8)
    x, w = spec_of(mesh, (SIZE, SIZE), [S(1)]), spec_of(mesh, (SIZE, SIZE), [S(0)])
    made = spec_of(mesh, (SIZE, SIZE), [P])
    lists = Use(aten._foreach_add.Scalar, ([made], 1.0), {}, (0,))
    with shardprop.enabled(
        policy="optimal",
        topology="torch",
        consumers=known(aten.mm.default, (x, w), lists),
    ):
        decided = shardprop.propagate(aten.mm.default, x, w)
        reduced = shardprop.redistribute_cost(made, spec_of(mesh, (SIZE, SIZE), [R]))
    assert decided.cost + decided.output_cost <= reduced + 1e-6
    assert decided.cost + decided.output_cost > 0


def test_prices_follow_the_groups_of_the_mesh() -> None:
    mesh = fresh_mesh(2, 2)
    x, w = spec_of(mesh, (SIZE, SIZE), [S(1), S(1)]), spec_of(mesh, (SIZE, SIZE), [S(0), S(0)])
    whole = spec_of(mesh, (SIZE, SIZE), [R, R])
    seen = known(aten.mm.default, (x, w), Use(None, (whole,), {}, (0,)))
    costs = []
    with shardprop.enabled(policy="optimal", topology="h100-nvlink", consumers=seen):
        for _ in range(2):
            decided = shardprop.propagate(aten.mm.default, x, w)
            costs.append(decided.cost + decided.output_cost)
            mesh._flatten()
    assert costs[1] < costs[0]
    with shardprop.enabled(policy="optimal", topology="h100-nvlink", consumers=seen):
        decided = shardprop.propagate(aten.mm.default, x, w)
    assert decided.cost + decided.output_cost == costs[1]


def test_equal_meshes_have_prices_of_their_own() -> None:
    meshes = [fresh_mesh(2, 2), fresh_mesh(2, 2)]
    assert meshes[0] == meshes[1]
    meshes[1]._flatten()
    x, w = (
        spec_of(meshes[0], (SIZE, SIZE), [S(1), S(1)]),
        spec_of(meshes[0], (SIZE, SIZE), [S(0)] * 2),
    )
    whole = spec_of(meshes[0], (SIZE, SIZE), [R, R])
    seen = known(aten.mm.default, (x, w), Use(None, (whole,), {}, (0,)))
    costs: list[list[float]] = []
    for order in (meshes, meshes[::-1]):
        of_mesh = {}
        with shardprop.enabled(policy="optimal", topology="h100-nvlink", consumers=seen):
            for mesh in order:
                decided = shardprop.propagate(
                    aten.mm.default,
                    spec_of(mesh, (SIZE, SIZE), [S(1), S(1)]),
                    spec_of(mesh, (SIZE, SIZE), [S(0), S(0)]),
                )
                of_mesh[id(mesh)] = decided.cost + decided.output_cost
        costs.append([of_mesh[id(mesh)] for mesh in meshes])
    assert costs[0] == costs[1]
    assert costs[0][1] < costs[0][0]


def test_prices_follow_the_rules_of_consumers(mesh_of: MeshOf) -> None:
    op = cast("Any", torch.library.custom_op("look_ahead::twice", mutates_args=())(_twice))
    op.register_fake(torch.empty_like)
    twice = torch.ops.look_ahead.twice.default
    mesh = mesh_of(8)
    x = spec_of(mesh, (SIZE, SIZE), [S(0)])
    seen = known(aten.relu.default, (x,), Use(twice, (x,), {}, (0,)))
    prices = []
    with shardprop.enabled(policy="optimal", topology="torch", consumers=seen):
        for rule in ("m n -> m n", "m! n! -> m n"):
            shardprop.register_rule(twice, rule, variants=False)
            prices.append(shardprop.propagate(aten.relu.default, x).output_cost)
            shardprop.unregister(twice)
    assert prices[0] == 0
    assert prices[1] > 0


def test_outputs_without_placements_cost_nothing_later(mesh_of: MeshOf) -> None:
    """Seeds and offsets of attention, of the op that is asked about and of its consumer."""
    mesh, op = mesh_of(2), aten._scaled_dot_product_efficient_attention.default
    heads = [spec_of(mesh, (4, 8, 64, 16), [p]) for p in (S(0), S(0), R)]
    call = (*heads, None, True)
    whole = spec_of(mesh, (4, 8, 64, 16), [R])
    seen = known(op, call, Use(None, (whole,), {}, (0,)))
    before = known(aten.relu.default, (heads[0],), Use(op, call, {}, (0,)))
    prices = []
    for consumers in (seen, before):
        with shardprop.enabled(
            policy="optimal", topology="torch", consumers=consumers, strict=True
        ):
            prices.append(shardprop.propagate(op, *call).output_cost)
            shardprop.propagate(aten.relu.default, heads[0])
    assert prices[0] > prices[1] == 0


def test_outputs_that_are_absent_keep_their_numbers(mesh_of: MeshOf) -> None:
    mesh, op = mesh_of(2), aten.native_layer_norm_backward.default
    x, row, one = (spec_of(mesh, shape, [R]) for shape in ((8, 8), (8,), (8, 1)))
    use = Use(op, (x, x, [8], one, one, row, row, [True, False, True]), {}, (0,))
    planner = shardprop.ExactPlanner(load_topology("torch"))
    found = strategies_of_use(use, mesh, planner, Computing(planner.topology), "torch")
    assert found is not None
    assert [(output, tuple(meta.shape)) for output, meta, _ in found.outputs] == [
        (0, (8, 8)),
        (2, (8,)),
    ]


def test_what_cannot_be_brought_to_its_consumers_is_decided_without_them(mesh_of: MeshOf) -> None:
    mesh = mesh_of(4)
    x, w = spec_of(mesh, (SIZE, SIZE), [S(1)]), spec_of(mesh, (SIZE, SIZE), [S(0)])
    schema = torch_registry.op_schema(aten.mm.default, (x, w), {})
    rule = route_of(aten.mm.default).rule
    assert isinstance(rule, RowsRule)
    question = rule.question(schema, output_meta(schema))
    ask = partial(
        choose_cheapest,
        shardprop.ExactPlanner(load_topology("torch")),
        question,
        prepare(question, rule),
    )
    assert ask(later=[lambda placements, strategy: float("inf")]) == ask()


def test_too_many_layouts_are_not_looked_at(mesh_of: MeshOf) -> None:
    mesh, shape = mesh_of(2, 2, 2, 2, 2), (4,) * 4
    x, whole = (spec_of(mesh, shape, [p] * 5) for p in (S(0), R))
    seen = known(aten.relu.default, (x,), Use(None, (whole,), {}, (0,)))
    with shardprop.enabled(policy="optimal", topology="torch", consumers=seen):
        assert shardprop.propagate(aten.relu.default, x).output_cost == 0


def test_calls_of_other_sizes_are_not_known(mesh_of: MeshOf) -> None:
    mesh = mesh_of(8)
    x, whole = (spec_of(mesh, (SIZE, SIZE), [p]) for p in (S(0), R))
    seen = known(aten.relu.default, (x,), Use(None, (whole,), {}, (0,)))
    with shardprop.enabled(policy="optimal", topology="torch", consumers=seen):
        other = spec_of(mesh, (SIZE, 2 * SIZE), [S(0)])
        assert shardprop.propagate(aten.relu.default, other).output_cost == 0


def test_who_consumes_is_for_policy_optimal() -> None:
    with pytest.raises(shardprop.ShardpropError, match="Expected consumers with policy 'optimal'"):
        shardprop.enable(consumers=Consumers())
    wrongs: list[Any] = [{}, [meta_of((2, 2))]]
    for wrong in wrongs:
        with pytest.raises(shardprop.ShardpropError, match=r"consumers: Expected .* got"):
            shardprop.enable(policy="optimal", topology="torch", consumers=wrong)


def test_a_call_is_known_by_sizes_and_values_alone(mesh_of: MeshOf) -> None:
    mesh = mesh_of(8)
    keys = {
        call_key(aten.add.Tensor, (spec_of(mesh, (4, 4), [a]), spec_of(mesh, (4, 4), [b])), {})
        for a, b in itertools.product([R, S(0), P], repeat=2)
    }
    assert len(keys) == 1
    x = spec_of(mesh, (4, 4), [R])
    assert call_key(aten.sum.dim_IntList, (x, [0]), {}) != call_key(
        aten.sum.dim_IntList, (x, [1]), {}
    )
    assert call_key(aten.add.Tensor, (x, 1), {}) != call_key(aten.add.Tensor, (x, True), {})
    assert call_key(aten.add.Tensor, (x, {1}), {}) is None
