"""Shards that leave some ranks nothing: no op raises on those ranks alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, distribute_tensor

import shardprop
from shardprop._torch import tensors_of_ranks
from shardprop.corrections.empty_shards import EMPTY_SHARDS
from shardprop.propagation.propagator import counters

from ..custom_ops import define, ops
from ..narrow import sharded
from ..specs import SS, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]
Run = Callable[..., torch.Tensor]

aten = torch.ops.aten
INF = float("inf")


@pytest.fixture(autouse=True)
def without_decisions() -> Iterator[None]:
    shardprop.reset_stats()
    yield
    shardprop.disable()
    shardprop.clear_caches()


def on_ranks(run: Run, mesh: DeviceMesh, operands: list[Any]) -> list[list[torch.Tensor]]:
    """The output and the gradients, on each rank; `operands` are tensors with their placements."""
    with LocalTensorMode(mesh.size()):
        given = [distribute_tensor(x, mesh, placements) for x, placements in operands]
        floats = [x.requires_grad_() for x in given if x.is_floating_point()]
        output = run(*given)
        grads = torch.autograd.grad(output.sum(), floats) if output.requires_grad else ()
        made = [output.detach(), *grads]
        return [tensors_of_ranks(sharded(x).full_tensor(), mesh.size()) for x in made]


def on_one_device(run: Run, operands: list[Any]) -> list[torch.Tensor]:
    given = [x.clone() for x, _ in operands]
    floats = [x.requires_grad_() for x in given if x.is_floating_point()]
    output = run(*given)
    grads = torch.autograd.grad(output.sum(), floats) if output.requires_grad else ()
    return [output.detach(), *grads]


def matrix(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


ROWS = torch.tensor([[0, 2, 1], [2, 1, 0]])
# Each with a shard of which the last of four ranks has nothing.
CALLS: dict[str, tuple[Run, list[Any]]] = {
    "amax": (lambda x: x.amax(0), [(matrix(3, 4), [S(0)])]),
    "amin": (lambda x: x.amin(1), [(matrix(4, 5), [S(1)])]),
    "argmax": (lambda x: x.argmax(0), [(matrix(3, 4), [S(0)])]),
    "max": (lambda x: x.max(), [(matrix(3, 4), [S(0)])]),
    "infinity norm": (lambda x: torch.linalg.vector_norm(x, INF), [(matrix(3, 4), [S(0)])]),
    "min along": (lambda x: x.min(0).values, [(matrix(5, 4), [S(0)])]),
    "gather": (
        lambda x, index: x.gather(0, index),
        [(matrix(3, 3), [S(0)]), (ROWS, [R])],
    ),
    "embedding": (
        lambda index, weight: torch.nn.functional.embedding(index, weight),
        [(ROWS, [R]), (matrix(3, 4), [S(0)])],
    ),
    "pooling": (
        lambda x: torch.nn.functional.adaptive_max_pool1d(x.detach(), 2),
        [(matrix(3, 2, 4), [S(0)])],
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_a_rank_has_nothing_of_is_gathered_first(call: str, mesh_of: MeshOf) -> None:
    run, operands = CALLS[call]
    with shardprop.enabled():
        found = on_ranks(run, mesh_of(4), operands)
    for made, right in zip(found, on_one_device(run, operands), strict=True):
        assert all(torch.allclose(local, right) for local in made)
    assert counters().policy_fallbacks == {}


@pytest.mark.parametrize("call", ["amax", "max", "infinity norm"])
def test_torch_alone_raises_on_some_ranks(call: str, mesh_of: MeshOf) -> None:
    run, operands = CALLS[call]
    with pytest.raises(Exception, match=r"numel\(\) == 0|non-zero size|have an identity"):
        on_ranks(run, mesh_of(4), operands)
    with shardprop.enabled():
        on_ranks(run, mesh_of(4), operands)
    assert counters().corrections[EMPTY_SHARDS.name] == 1


@pytest.mark.parametrize("placements", [(S(0), S(0)), (S(1), S(0)), (S(0), S(1))], ids=str)
@pytest.mark.parametrize("policy", ["torch", "optimal"])
def test_shards_on_two_mesh_dims(
    placements: tuple[Placement, ...], policy: str, mesh_of: MeshOf
) -> None:
    operands = [(matrix(3, 5), placements)]
    settings = {"topology": "h100-nvlink"} if policy == "optimal" else {}
    with shardprop.enabled(policy=policy, **settings):  # type: ignore[arg-type]
        (found,) = on_ranks(lambda x: x.detach().amax(0), mesh_of(2, 2), operands)
    (right,) = on_one_device(lambda x: x.detach().amax(0), operands)
    assert all(torch.equal(local, right) for local in found)


def test_the_least_price_is_that_of_what_runs_on_all_ranks(mesh_of: MeshOf) -> None:
    """100 channels over 8 and 4 ranks leave some of them none, where the kernel raises."""
    mesh, shape = mesh_of(8, 4), (128, 100, 4, 16, 16)
    x = spec_of(mesh, shape, (R, S(1)))
    indices = spec_of(mesh, shape, (S(1), S(1)), dtype=torch.int64)
    call = aten.max_unpool3d.default, x, indices, [8, 32, 32], [2, 2, 2], [0, 0, 0]
    with shardprop.enabled():
        torchs = shardprop.propagate(*call)
    with shardprop.enabled(policy="optimal", topology="torch"):
        least = shardprop.propagate(*call)
        prices = [
            shardprop.redistribute_cost(spec, spec_of(mesh, shape, wanted, dtype=dtype))
            for spec, wanted, dtype in zip(
                (x, indices), torchs.operands, (torch.float32, torch.int64), strict=True
            )
        ]
    assert least.route.correction is EMPTY_SHARDS
    assert 0 < least.cost <= sum(prices)
    assert least.operands[0] != (S(1), S(1))


def decided(op: Any, *args: Any) -> shardprop.Decision:
    shardprop.enable()
    return shardprop.propagate(op, *args)


def test_shards_that_leave_all_ranks_something_stay(mesh_of: MeshOf) -> None:
    """So do those of dims that are not reduced, and operands of ops which run on nothing."""
    mesh = mesh_of(4)
    for op, shape, dims in (
        (aten.amax.default, (5, 8), ([1],)),
        (aten.amax.default, (8, 5), ([0],)),
        (aten.sum.dim_IntList, (3, 4), ([0],)),
        (aten.neg.default, (3, 4), ()),
    ):
        spec = spec_of(mesh, shape, (S(0),))
        found = decided(op, spec, *dims)
        assert found.operands == ((S(0),),), op
        assert found.cost == 0
        assert found.route.correction is None


def test_the_decision_says_why(mesh_of: MeshOf) -> None:
    spec = spec_of(mesh_of(4), (3, 4), (S(0),))
    found = decided(aten.amax.default, spec, [0])
    assert found.operands == ((R,),)
    assert found.route.correction is EMPTY_SHARDS
    assert "gathers that operand first" in found.why
    assert found.cost == shardprop.redistribute_cost(spec, spec_of(mesh_of(4), (3, 4), (R,))) > 0
    (explained,) = shardprop.explain(aten.amax.default, spec, [0]).decisions
    assert explained.us == found.cost
    assert [len(explained.moves), len(explained.candidates)] == [1, 1]


def test_torch_alone_is_followed_where_it_is_asked_for(mesh_of: MeshOf) -> None:
    spec = spec_of(mesh_of(4), (3, 4), (S(0),))
    with shardprop.enabled(corrections=False):
        found = shardprop.propagate(aten.amax.default, spec, [0])
    assert found.operands == ((S(0),),)


def _needs_some(x: torch.Tensor) -> torch.Tensor:
    if x.numel() == 0:
        raise ValueError("nothing to start from")
    return x.add_(1)


define("start_(Tensor(a!) x) -> Tensor(a!)", _needs_some)


def test_an_operand_that_is_written_into_cannot_be_gathered(mesh_of: MeshOf) -> None:
    start, mesh = ops.start_.default, mesh_of(4)
    shardprop.register_rule(start, "a b -> a b", variants=False)
    try:
        assert decided(start, spec_of(mesh, (8, 4), (S(0),))).operands == ((S(0),),)
        with pytest.raises(shardprop.ShardpropError) as refused:
            shardprop.propagate(start, spec_of(mesh, (5, 4), (S(0),)))
        with shardprop.enabled(corrections=False):
            shardprop.propagate(start, spec_of(mesh, (5, 4), (S(0),)))
    finally:
        shardprop.unregister(start)
    text = str(refused.value)
    assert "start_" in text
    assert "operand 0" in text
    assert "rank 3 would raise (nothing to start from)" in text
    assert "Redistribute the operand" in text


def test_strided_shards(mesh_of: MeshOf) -> None:
    spec = spec_of(mesh_of(2, 2), (3, 4), (SS(0, 2), S(0)))
    assert decided(aten.amax.default, spec, [0]).operands == ((R, R),)
    assert decided(aten.amax.default, spec, [1]).operands == ((SS(0, 2), S(0)),)


def test_a_strided_shard_of_more_chunks_than_ranks(mesh_of: MeshOf) -> None:
    """Eight in six chunks of two: the last rank has the third and the sixth, which are empty."""
    spec = spec_of(mesh_of(3), (8, 4), (SS(0, 2),))
    assert decided(aten.amax.default, spec, [0]).operands == ((R,),)
    assert decided(aten.amax.default, spec, [1]).operands == ((SS(0, 2),),)


def test_a_kernel_that_ends_the_process_is_not_tried(mesh_of: MeshOf) -> None:
    mesh = mesh_of(3)
    rows, norms = spec_of(mesh, (4, 6), [S(0)]), spec_of(mesh, (4, 1), [S(0)])
    with shardprop.enabled():
        found = shardprop.propagate(aten._weight_norm_interface.default, rows, norms, 0)
    assert found.operands == ((R,), (R,))
    assert found.route.correction is EMPTY_SHARDS


def test_only_the_dim_is_gathered_that_a_rank_has_nothing_of(mesh_of: MeshOf) -> None:
    spec = spec_of(mesh_of(4, 2), (3, 8), (S(0), S(1)))
    assert decided(aten.amax.default, spec, [0]).operands == ((R, S(1)),)


@pytest.mark.filterwarnings("ignore:DTensor random operators")
def test_torch_alone_has_a_mask_of_two_dtypes(mesh_of: MeshOf) -> None:
    assert torch.native_dropout(matrix(0, 4), 0.5, True)[1].dtype is torch.float64
    with shardprop.enabled(corrections=False), LocalTensorMode(4):
        given = distribute_tensor(matrix(3, 4), mesh_of(4), [S(0)])
        with pytest.raises(AssertionError, match="must have the same dtype"):
            torch.native_dropout(given, 0.5, True)


@pytest.mark.parametrize("overload", ["default", "out"])
def test_dropout_of_which_a_rank_has_nothing_is_refused(overload: str, mesh_of: MeshOf) -> None:
    """It stays where it is: ranks on CPUs would drop other elements of a whole one."""
    state = torch.random.get_rng_state()
    mesh, dropout = mesh_of(4), getattr(aten.native_dropout, overload)

    def made(rows: int) -> shardprop.Decision:
        x = spec_of(mesh, (rows, 4), (S(0),))
        out = {"out0": x, "out1": spec_of(mesh, (rows, 4), (S(0),), dtype=torch.bool)}
        return shardprop.propagate(dropout, x, 0.5, True, **(out if overload == "out" else {}))

    with shardprop.enabled():
        assert made(8).operands[0] == (S(0),)
        with pytest.raises(shardprop.ShardpropError) as refused:
            made(3)
    text = str(refused.value)
    assert "rank 3 makes another mask (torch.float32 without elements, else torch.bool)" in text
    assert text.endswith("to shards of another dim.")
    assert torch.equal(torch.random.get_rng_state(), state)
