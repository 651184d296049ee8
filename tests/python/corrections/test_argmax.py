"""argmin and argmax: the first of equal elements, and where the result is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, distribute_tensor

import shardprop
from shardprop._torch import tensors_of_ranks
from shardprop.corrections.first_of_equals import FIRST_OF_EQUALS
from shardprop.propagation.propagator import counters

from ..narrow import sharded
from ..specs import R, S

MeshOf = Callable[..., DeviceMesh]


@pytest.fixture(autouse=True)
def without_decisions() -> Iterator[None]:
    shardprop.reset_stats()
    yield
    shardprop.disable()
    shardprop.clear_caches()


def is_right(mesh: DeviceMesh, placements: tuple[Placement, ...], dim: int | None) -> bool:
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(4):
        x = torch.randint(0, 8, (4, 5, 4), generator=generator)
        with LocalTensorMode(mesh.size()):
            whole = distribute_tensor(x, mesh, placements)
            for run in (torch.argmin, torch.argmax):
                made = tensors_of_ranks(sharded(run(whole, dim)).full_tensor(), mesh.size())
                found += [(local, run(x, dim)) for local in made]
    return all(torch.equal(local, right) for local, right in found)


LAYOUTS = [*itertools.product((R, S(0), S(1), S(2)), repeat=2)]


@pytest.mark.parametrize("dim", [None, 0, -2])
def test_it_is_the_first(dim: int | None, mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)
    with shardprop.enabled():
        assert [each for each in LAYOUTS if not is_right(mesh, each, dim)] == []


def test_torch_alone_gives_another(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)
    wrong = [each for each in LAYOUTS if not is_right(mesh, each, None)]
    assert (S(1), R) in wrong
    assert (S(0), R) not in wrong
    with shardprop.enabled(corrections=False):
        assert not is_right(mesh, (S(1), R), None)


def test_operands_whose_ranks_are_in_order_stay(mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)
    with shardprop.enabled():
        for placements, dim in (((S(0), R), None), ((S(1), S(0)), 1), ((S(0), S(2)), 0)):
            assert is_right(mesh, placements, dim)
        assert FIRST_OF_EQUALS.name not in counters().corrections
        assert is_right(mesh, (S(1), S(1)), 1)
        assert counters().corrections[FIRST_OF_EQUALS.name] == 8


@pytest.mark.parametrize("shape", [(2, 2), (4,)], ids=str)
def test_results_are_placed_as_they_are_said_to_be(shape: tuple[int, ...], mesh_of: MeshOf) -> None:
    """torch 2.15 decides to shard another dim, and reduces what each rank holds all the same."""
    mesh = mesh_of(*shape)
    with shardprop.enabled():
        for placements in itertools.product((R, S(0), S(1), S(2)), repeat=len(shape)):
            for dim in (0, 1, 2):
                assert is_right(mesh, placements, dim), (placements, dim)
