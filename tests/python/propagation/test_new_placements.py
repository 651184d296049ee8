"""A program's own kind of shard is nobody's plain shard: torch decides, or an error names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec

import shardprop

from ..specs import R, S, spec_of

MeshOf = Callable[..., DeviceMesh]
aten = torch.ops.aten
NAMED = r"subclass Halo of a placement"


class Halo(Shard):
    """A shard with rows of its neighbours."""


@pytest.fixture(autouse=True)
def disabled_afterwards() -> Iterator[None]:
    shardprop.reset_stats()
    yield
    shardprop.disable()


@pytest.fixture
def halo(mesh_of: MeshOf) -> DTensorSpec:
    return spec_of(mesh_of(4), (16, 16), [Halo(0)])


def test_an_op_on_it_goes_to_torch_and_is_counted(mesh_of: MeshOf) -> None:
    x = DTensor.from_local(torch.ones(4, 16), mesh_of(4), [Halo(0)], run_check=False)
    with shardprop.enabled():
        x + x
    assert dict(shardprop.stats().fallbacks) == {"subclass Halo of a placement": 1}


def test_a_question_is_answered_by_torch(halo: DTensorSpec) -> None:
    shardprop.enable()
    decided = shardprop.propagate(aten.add.Tensor, halo, halo)
    assert "subclass Halo of a placement" in decided.why


def test_policy_optimal_names_it(halo: DTensorSpec) -> None:
    shardprop.enable(policy="optimal", topology="h100-nvlink", strict=True)
    with pytest.raises(shardprop.ShardpropError, match=NAMED):
        shardprop.propagate(aten.add.Tensor, halo, halo)


@pytest.mark.parametrize("policy", ["torch", "optimal"])
def test_a_plan_names_it(halo: DTensorSpec, policy: str) -> None:
    for ends in (
        (halo, spec_of(halo.mesh, (16, 16), [R])),
        (spec_of(halo.mesh, (16, 16), [S(1)]), halo),
    ):
        with pytest.raises(shardprop.ShardpropError, match=NAMED):
            shardprop.plan(*ends, policy=policy, topology="h100-nvlink")


def test_prices_and_strategies_name_it(halo: DTensorSpec) -> None:
    planner = shardprop.ExactPlanner(shardprop.load_topology("h100-nvlink"))
    with pytest.raises(Exception, match=NAMED):
        planner.prices(halo.tensor_meta, halo.mesh, [[Halo(0)]], [[R]])  # type: ignore[arg-type]
    with pytest.raises(shardprop.ShardpropError, match=NAMED):
        shardprop.strategies(
            aten.add.Tensor,
            (halo.tensor_meta, halo.tensor_meta),
            mesh=halo.mesh,
            sources=[[(Halo(0),)], [(Halo(0),)]],
            prices=planner,
        )
