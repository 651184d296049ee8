"""Values of ops on tensors that mesh dims have cut in another order than from left to right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, distribute_tensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry

import shardprop
from shardprop.corrections.shard_order import SHARD_ORDER
from shardprop.errors import RefusedPlacementError
from shardprop.inspection.explanation.explaining import explain_schema
from shardprop.propagation.op_call import call_schema

from ..narrow import sharded
from ..specs import R, S, meta_of

MeshOf = Callable[..., DeviceMesh]

aten = torch.ops.aten

SIZES = (2, 3)
RANKS = 6
# Rows of twelve parts that are not the same by the two orders.
X = torch.arange(80.0).reshape(10, 8) % 7 - 3
Y = torch.arange(80.0).reshape(10, 8) % 5

TWISTED = (ShardOrderEntry(tensor_dim=0, mesh_dims=(1, 0)),)


def twisted_spec(mesh: DeviceMesh, shape: tuple[int, ...] = (10, 8)) -> DTensorSpec:
    return DTensorSpec(mesh, (S(0), S(0)), meta_of(shape), shard_order=TWISTED)


def twisted(whole: torch.Tensor, mesh: DeviceMesh) -> DTensor:
    """Rows that mesh dim 1 has cut first."""
    parts: dict[int, torch.Tensor] = {}
    for first in range(SIZES[0]):
        for second in range(SIZES[1]):
            pieces = whole.chunk(SIZES[1])[second].chunk(SIZES[0])
            part = pieces[first] if first < len(pieces) else whole[:0]
            parts[first * SIZES[1] + second] = part.clone()
    return DTensor(LocalTensor(parts), twisted_spec(mesh, tuple(whole.shape)), requires_grad=False)


def whole_of(tensor: torch.Tensor) -> torch.Tensor:
    return sharded(tensor).full_tensor().reconcile()  # type: ignore[attr-defined]


def beside(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Another operand of a call, whole on all ranks."""
    if not isinstance(x, DTensor):
        return other
    return distribute_tensor(other, x.device_mesh, [R] * x.device_mesh.ndim)


SETTINGS = [{}, {"policy": "optimal", "topology": "cpu-gloo"}]

Call = Callable[[Any], Any]
OF_ONE: dict[str, Call] = {
    "sum": lambda x: x.sum(1),
    "softmax": lambda x: x.softmax(-1),
    "gelu": torch.nn.functional.gelu,
    "view": lambda x: x.view(10, 4, 2),
    "detach": lambda x: x.detach(),
    "select": lambda x: x[:, 1],
    "group_norm": lambda x: torch.nn.functional.group_norm(x.unsqueeze(-1), 2),
    "argmax of the rows": lambda x: x.argmax(1),
    "argmax along the rows": lambda x: x.argmax(0),
    "cat": lambda x: torch.cat([x, x], 1),
    "decomposed": torch.nn.functional.hardswish,
    "pooling": lambda x: torch.nn.functional.avg_pool1d(x.unsqueeze(1), 2),
    "convolution": lambda x: torch.nn.functional.conv1d(
        x.unsqueeze(1), beside(x, torch.ones(2, 1, 3))
    ),
    "list": lambda x: torch._foreach_mul([x], 2.0)[0],
}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("name", OF_ONE)
def test_the_values_are_those_of_one_device(
    settings: dict[str, str], name: str, mesh_of: MeshOf
) -> None:
    call = OF_ONE[name]
    with shardprop.enabled(**settings), LocalTensorMode(RANKS):  # type: ignore[arg-type]
        found = whole_of(call(twisted(X, mesh_of(*SIZES))))
    torch.testing.assert_close(found, call(X))


PLACED = [(S(0), S(0)), (R, R), (S(0), R), (S(1), S(0))]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("placements", PLACED, ids=str)
def test_what_is_written_into_stays_and_the_others_are_put_in_its_order(
    settings: dict[str, str], placements: tuple[Placement, ...], mesh_of: MeshOf
) -> None:
    mesh = mesh_of(*SIZES)
    with LocalTensorMode(RANKS):
        other = distribute_tensor(Y, mesh, placements)
        with shardprop.enabled(**settings):  # type: ignore[arg-type]
            given = twisted(X, mesh)
            assert given.mul_(other) is given
            assert given._spec.shard_order == TWISTED
            made = twisted(X, mesh)
            assert torch.add(other, 1.0, out=made) is made
            torch._foreach_add_([given], [other])
        assert torch.equal(whole_of(given), X * Y + Y)
        assert torch.equal(whole_of(made), Y + 1.0)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_writes_into_views_reach_the_tensor(settings: dict[str, str], mesh_of: MeshOf) -> None:
    right = X.clone()
    right[:, 2] += 1
    with shardprop.enabled(**settings), LocalTensorMode(RANKS):  # type: ignore[arg-type]
        given = twisted(X, mesh_of(*SIZES))
        given.detach()[:, 2].add_(1)
        found = whole_of(given)
    assert torch.equal(found, right)


ADAM = {
    **{"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8},
    **{"amsgrad": False, "maximize": False},
}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("fused", [False, True])
def test_optimizers_train_a_parameter_in_its_order(
    settings: dict[str, str], fused: bool, mesh_of: MeshOf
) -> None:
    right = torch.nn.Parameter(X.clone())
    right.grad = Y.clone()
    torch.optim.Adam([right], lr=0.1, fused=fused).step()
    mesh = mesh_of(*SIZES)
    with shardprop.enabled(**settings), LocalTensorMode(RANKS):  # type: ignore[arg-type]
        parameter = torch.nn.Parameter(twisted(X, mesh))
        parameter.grad = distribute_tensor(Y, mesh, [S(0), S(0)])
        torch.optim.Adam([parameter], lr=0.1, fused=fused).step()
        found = whole_of(parameter.detach())
    torch.testing.assert_close(found, right.detach())


def test_what_has_no_order_in_common_is_refused(mesh_of: MeshOf) -> None:
    mesh = mesh_of(*SIZES)
    default = DTensorSpec(mesh, (S(0), S(0)), meta_of((10, 8)))
    step = DTensorSpec(mesh, (R, R), meta_of(()))
    with (
        shardprop.enabled(),
        pytest.raises(RefusedPlacementError, match="writes into or views in one shard order"),
    ):
        shardprop.propagate(
            aten._fused_adam_.default,
            *([each] for each in (twisted_spec(mesh), default, default, default)),
            *([], [step]),
            **ADAM,
        )


def test_each_element_of_a_list_is_explained_in_its_order(mesh_of: MeshOf) -> None:
    mesh = mesh_of(*SIZES)
    default = DTensorSpec(mesh, (S(0), S(0)), meta_of((10, 8)))
    given = [twisted_spec(mesh), default]
    with shardprop.enabled():
        explained = explain_schema(call_schema(aten._foreach_add_.List, (given, [default] * 2), {}))
    assert explained.error is None
    assert [(move.name, move.src) for move in explained.moves] == [("other[0]", default)]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_runs_of_a_list_that_is_decided_as_a_whole_is_explained(
    settings: dict[str, str], mesh_of: MeshOf
) -> None:
    mesh = mesh_of(*SIZES)
    whole = DTensorSpec(mesh, (R, R), meta_of((10, 8)))
    tensors = [twisted_spec(mesh), whole]
    with shardprop.enabled(**settings):  # type: ignore[arg-type]
        decision = shardprop.propagate(aten.cat.default, tensors, 1)
        explained = explain_schema(call_schema(aten.cat.default, (tensors, 1), {}))
    wanted = decision.sharding.redistribute_schema.args_spec  # type: ignore[union-attr]
    assert [(move.src, move.dst, move.us) for move in explained.moves] == [
        (src, dst, us)
        for src, dst, us in zip(tensors, wanted, decision.operand_costs, strict=True)
        if src != dst
    ]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_argmax_of_a_dim_that_is_not_cut_runs_as_decided(
    settings: dict[str, str], mesh_of: MeshOf
) -> None:
    with shardprop.enabled(**settings), LocalTensorMode(RANKS):  # type: ignore[arg-type]
        given = twisted(X, mesh_of(*SIZES))
        decided = shardprop.propagate(aten.argmax.default, given._spec, 1)
        assert sharded(given.argmax(1)).placements == decided.outputs[0]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_move_is_priced_explained_and_counted(
    settings: dict[str, str], mesh_of: MeshOf
) -> None:
    mesh = mesh_of(*SIZES)
    given = twisted_spec(mesh)
    with shardprop.enabled(**settings):  # type: ignore[arg-type]
        decision = shardprop.propagate(aten._softmax.default, given, 1, False)
        explained = explain_schema(call_schema(aten._softmax.default, (given, 1, False), {}))
        wanted = decision.sharding.redistribute_schema.args_spec[0]  # type: ignore[union-attr]
        price = shardprop.redistribute_cost(given, wanted)
        assert decision.route.correction is SHARD_ORDER
    assert wanted != given and decision.sharding.needs_redistribute
    (move,) = explained.moves
    assert decision.operand_costs == (price,) == (move.us,)
    assert (move.src, move.dst) == (given, wanted)
    assert SHARD_ORDER.right in decision.why


def test_what_stays_has_no_price(mesh_of: MeshOf) -> None:
    mesh = mesh_of(*SIZES)
    given = twisted_spec(mesh)
    with shardprop.enabled():
        decision = shardprop.propagate(aten.mul_.Tensor, given, given)
        explained = explain_schema(call_schema(aten.mul_.Tensor, (given, given), {}))
    assert decision.operand_costs == (0.0, 0.0) and decision.cost == 0.0
    assert explained.moves == () and not decision.sharding.needs_redistribute


def test_decisions_are_torchs_without_corrections(mesh_of: MeshOf) -> None:
    given = twisted_spec(mesh_of(*SIZES))
    with shardprop.enabled(corrections=False):
        decision = shardprop.propagate(aten.unsqueeze.default, given, 1)
    assert not decision.sharding.needs_redistribute and decision.route.correction is None


def test_a_decision_in_which_an_order_is_put_right_is_counted(mesh_of: MeshOf) -> None:
    with shardprop.enabled(), LocalTensorMode(RANKS):
        before = shardprop.stats().corrections.get(SHARD_ORDER.name, 0)
        twisted(X + 0.25, mesh_of(*SIZES)).sum(1)
        assert shardprop.stats().corrections[SHARD_ORDER.name] == before + 1
