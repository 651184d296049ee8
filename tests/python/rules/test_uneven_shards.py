"""Partial(avg) is refused where ranks hold different numbers of the elements that are averaged."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._ops.utils import is_tensor_evenly_shardable

from shardprop.rules.uneven_shards import is_even, refuses_partial_avg

from ..specs import SS, P, R, S, spec_of

MeshOf = Callable[..., DeviceMesh]
PLACEMENTS: tuple[Placement, ...] = (R, P, S(0), S(1), SS(0, 2), SS(1, 2), SS(1, 3))


@pytest.mark.parametrize("size", [0, 1, 6, 7, 8, 12, 24])
def test_average_is_refused_where_torch_finds_uneven_shards(mesh_of: MeshOf, size: int) -> None:
    mesh = mesh_of(2, 3)
    replicated = spec_of(mesh, (12, size), [R, R])
    answers = set()
    for pair in itertools.product(PLACEMENTS, repeat=2):
        spec = spec_of(mesh, (12, size), list(pair))
        refused = refuses_partial_avg(spec, range(2))
        assert refused is not is_tensor_evenly_shardable(spec.shape, spec)
        assert refuses_partial_avg(replicated, range(2), pair) is refused
        assert refuses_partial_avg(spec, [0]) is not is_even(spec, 0)
        answers.add(refused)
    assert answers == ({False} if size == 0 else {True, False})


def test_dims_that_are_not_averaged_may_be_uneven(mesh_of: MeshOf) -> None:
    spec = spec_of(mesh_of(2), (7, 8), [S(0)])
    assert not refuses_partial_avg(spec, [1])
    assert refuses_partial_avg(spec, [0])
    assert not refuses_partial_avg(spec, [0], [R])


def test_units_are_counted_whole(mesh_of: MeshOf) -> None:
    spec = spec_of(mesh_of(2), (12,), [S(0)])
    assert is_even(spec, 0, unit=3)
    assert not is_even(spec, 0, unit=4)
