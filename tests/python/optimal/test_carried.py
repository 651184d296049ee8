"""Plans of the core, carried out on simulated ranks, leave the right data."""

from __future__ import annotations

import itertools

import pytest
from torch.distributed.tensor._dtensor_spec import DTensorSpec

import shardprop
from shardprop import _torch

from ..specs import R, S, spec_of
from .carried import Carried
from .core import OneModel
from .local import fault, split
from .models import ring_model
from .pairs import all_pairs, planned, random_pairs
from .ranks import fault_of, flattened, numbers
from .walks import Tensor

pytestmark = pytest.mark.slow

SIZES = (2, 2)
GROUP = ((0, 1),)
WHOLE = (S(0), S(0)), (R, R)


def test_plans_leave_the_data_of_their_target() -> None:
    """Some of those of the long run. What the simulation cannot do is little, and done there."""
    carried = Carried()
    some = itertools.islice(all_pairs(2, meshes=((2, 4), (3, 2))), 0, None, 150)
    for batch in (*some, *random_pairs(11, 5, 3, max_ranks=8)):
        for plan in planned(batch):
            carried.add(plan)
    assert not carried.faults, carried.faults[0]
    done = carried.counts["right data"]
    assert done > 200 and len(carried.refused) < 0.1 * done, carried.counts


def ends(shape: tuple[int, ...]) -> tuple[DTensorSpec, DTensorSpec]:
    mesh = flattened(SIZES, GROUP)
    return spec_of(mesh, shape, WHOLE[0]), spec_of(mesh, shape, WHOLE[1])


def by_torch(source: DTensorSpec, target: DTensorSpec) -> str | None:
    """What is wrong with the data after torch's own redistribution."""
    whole, tensor = numbers(source.shape), Tensor(tuple(source.shape), SIZES)
    before, after = tensor.layout(source.placements), tensor.layout(target.placements)
    with _torch.all_ranks_at_once(4):
        held = _torch.as_one_tensor(split(whole, before, SIZES, 0))
        made = _torch.waited(_torch.torch_redistribute(held, source, target))
        return fault(_torch.tensors_of_ranks(made, 4), whole, after, SIZES)


@pytest.mark.parametrize("shape", [(5,), (6,), (9, 2), (13,)], ids=str)
def test_an_uneven_gather_that_torch_merges_into_wrong_data_is_right(
    shape: tuple[int, ...],
) -> None:
    source, target = ends(shape)
    assert by_torch(source, target) is not None
    topology = OneModel(ring_model(SIZES, list(GROUP)))
    plan = shardprop.plan(source, target, topology=topology)
    assert [step.mesh_dims for step in plan.steps] == [(1,), (0,)]
    assert fault_of(plan.steps, Tensor(shape, SIZES, GROUP)) is None
    # Policy torch has no other plan, and gives the merged one no price where that is not put right.
    as_torch = shardprop.plan(source, target, topology=topology, policy="torch")
    assert as_torch.steps == plan.steps
    with (
        shardprop.enabled(corrections=False),
        pytest.raises(shardprop.ShardpropError, match="right data"),
    ):
        shardprop.plan(source, target, topology=topology, policy="torch")


def test_an_even_gather_is_merged_by_both() -> None:
    source, target = ends((8,))
    assert by_torch(source, target) is None
    plan = shardprop.plan(source, target, topology=OneModel(ring_model(SIZES, list(GROUP))))
    assert [step.mesh_dims for step in plan.steps] == [(0, 1)]
    assert fault_of(plan.steps, Tensor((8,), SIZES, GROUP)) is None
