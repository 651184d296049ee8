"""Gradients that are unscaled together: all ranks learn of an infinity that one of them finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, distribute_tensor

import shardprop
from shardprop._torch import tensors_of_ranks
from shardprop.corrections.infinity_of_others import INFINITY_OF_OTHERS
from shardprop.errors import RefusedPlacementError

from ..narrow import sharded
from ..optimal.gloo import Processes
from ..specs import R, S

MeshOf = Callable[..., DeviceMesh]
Placements = Sequence[Placement]

SUM = Partial("sum")
unscale = torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default


@pytest.fixture(autouse=True)
def counted() -> Iterator[None]:
    shardprop.reset_stats()
    yield
    shardprop.disable()


def _one_on_each(ranks: int, number: float) -> LocalTensor:
    return LocalTensor({rank: torch.full((), number) for rank in range(ranks)})


def _placed(mesh: DeviceMesh, number: float, placement: Placement | None) -> torch.Tensor:
    """A plain tensor where there is no placement; a pending sum whose parts are all on rank 0."""
    whole = _one_on_each(mesh.size(), number)
    if placement is None:
        return whole
    if placement == SUM:
        whole = LocalTensor({r: torch.full((), 0.0 if r else number) for r in range(mesh.size())})
    at = [placement] + [R] * (mesh.ndim - 1)
    return DTensor.from_local(whole, mesh, at, run_check=False)


def _found(
    mesh: DeviceMesh,
    gradients: Sequence[Placements],
    found_inf: Placement | None = None,
    scale: Placement | None = None,
) -> tuple[list[float], list[torch.Tensor]]:
    """What each rank takes for found, and the gradients. The last of these has an infinity, in its
    last element; all others are ones, and the scale is 4."""
    wholes = [torch.ones(4, 4) for _ in gradients]
    wholes[-1][3, 3] = torch.inf
    found, four = (_placed(mesh, *each) for each in ((0.0, found_inf), (4.0, scale)))
    with LocalTensorMode(mesh.size()):
        placed = zip(wholes, gradients, strict=True)
        given = [_distributed(x, mesh, at) for x, at in placed]
        unscale(given, found, four)
        local = sharded(found).to_local() if isinstance(found, DTensor) else found
        on_ranks = [float(each) for each in tensors_of_ranks(local, mesh.size())]
        made = [tensors_of_ranks(sharded(x).full_tensor(), mesh.size())[0] for x in given]
    return on_ranks, made


def _distributed(whole: torch.Tensor, mesh: DeviceMesh, placements: Placements) -> DTensor:
    """Replicas of their own memory: where they share one, each rank scales those of all."""
    placed = distribute_tensor(whole, mesh, placements)
    locals_ = tensors_of_ranks(placed.to_local(), mesh.size())
    apart = LocalTensor({rank: local.clone() for rank, local in enumerate(locals_)})
    return DTensor.from_local(apart, mesh, placements, run_check=False)


MIXED: list[Sequence[Placements]] = [
    ([R, R], [S(0), R]),
    ([R, R], [R, R], [R, S(1)]),
    ([S(0), R], [R, S(0)]),
    ([S(1), R], [S(0), S(0)]),
]


@pytest.mark.parametrize("gradients", MIXED, ids=str)
def test_all_ranks_learn_of_it(gradients: Sequence[Placements], mesh_of: MeshOf) -> None:
    mesh = mesh_of(2, 2)
    with shardprop.enabled(corrections=False):
        on_ranks, _ = _found(mesh, gradients)
    assert {*on_ranks} == {0.0, 1.0}
    with shardprop.enabled():
        on_ranks, made = _found(mesh, gradients)
    assert on_ranks == [1.0] * 4
    assert all(bool((x[:3] == 4).all()) for x in made)
    assert shardprop.stats().corrections == {INFINITY_OF_OTHERS.name: 1}


@pytest.mark.parametrize(
    "gradients", [([S(0)], [R]), ([S(1)], [S(0)]), ([R], [R]), ([S(0)],)], ids=str
)
def test_what_torch_gets_right_is_its_own(gradients: Sequence[Placements], mesh_of: MeshOf) -> None:
    with shardprop.enabled():
        on_ranks, _ = _found(mesh_of(2), gradients)
    assert on_ranks == [1.0] * 2
    assert shardprop.stats().corrections == {}


def test_gradients_on_two_meshes(mesh_of: MeshOf) -> None:
    infinite = torch.tensor([1.0, 1.0, 1.0, torch.inf])
    on_ranks = []
    for corrections in (False, True):
        found = _one_on_each(4, 0.0)
        with shardprop.enabled(corrections=corrections), LocalTensorMode(4):
            first = distribute_tensor(torch.ones(4), mesh_of(2, 2), [S(0), R])
            second = distribute_tensor(infinite, mesh_of(4), [S(0)])
            unscale([first, second], found, torch.ones(()))
        on_ranks.append([float(each) for each in tensors_of_ranks(found, 4)])
    assert on_ranks == [[0.0, 1.0, 0.0, 1.0], [1.0] * 4]


def found_on_rank(meshes: Sequence[Sequence[int]], infinite_on: int) -> float:
    """What a rank finds of ones on meshes of some of the ranks, sharded but on the first mesh; on
    the last one, one rank has an infinity."""
    gradients = []
    for number, ranks in enumerate(meshes):
        mesh = DeviceMesh("cpu", list(ranks))
        is_last = number == len(meshes) - 1
        local = torch.full((2,), torch.inf if is_last and dist.get_rank() == infinite_on else 1.0)
        gradients.append(DTensor.from_local(local, mesh, [S(0) if number else R], run_check=False))
    found = torch.zeros(1)
    with shardprop.enabled():
        unscale(gradients, found, torch.ones(1))
    return float(found)


@pytest.mark.slow
@pytest.mark.parametrize("meshes", [[(0, 1, 2), (1, 2)], [(0, 1), (1, 2)]], ids=str)
def test_ranks_outside_of_a_mesh_learn_of_it(meshes: Sequence[Sequence[int]]) -> None:
    ranks = Processes(3)
    try:
        assert ranks.call(found_on_rank, meshes, 2) == [1.0] * 3
    finally:
        ranks.close()


@pytest.mark.parametrize("found_inf", [None, R], ids=str)
@pytest.mark.parametrize("gradients", [([S(0)],), ([R], [S(0)]), ([R],)], ids=str)
def test_a_pending_scale_is_reduced(
    gradients: Sequence[Placements], found_inf: Placement | None, mesh_of: MeshOf
) -> None:
    with shardprop.enabled():
        on_ranks, made = _found(mesh_of(2), gradients, found_inf, SUM)
    assert on_ranks == [1.0] * 2
    assert all(bool((x[:3] == 4).all()) for x in made)
    assert shardprop.stats().corrections == {INFINITY_OF_OTHERS.name: 1}


@pytest.mark.parametrize("found_inf", [R, None], ids=str)
@pytest.mark.parametrize("gradients", [([S(0)],), ([R], [S(0)])], ids=str)
def test_what_is_found_may_be_a_replica(
    gradients: Sequence[Placements], found_inf: Placement | None, mesh_of: MeshOf
) -> None:
    with shardprop.enabled():
        on_ranks, _ = _found(mesh_of(2), gradients, found_inf, R)
    assert on_ranks == [1.0] * 2


@pytest.mark.parametrize("found_inf", [SUM, Partial("max")], ids=str)
def test_it_is_not_written_into_what_is_pending(found_inf: Placement, mesh_of: MeshOf) -> None:
    with shardprop.enabled(), pytest.raises(RefusedPlacementError) as refused:
        _found(mesh_of(2), [[R]], found_inf)
    text = str(refused.value)
    assert "_amp_foreach_non_finite_check_and_unscale_" in text
    assert "found_inf that is replicated" in text
    assert "Redistribute it before" in text


@pytest.mark.parametrize("reduce_op", ["product", "max", "min"])
def test_gradients_whose_parts_do_not_scale_are_refused(reduce_op: str, mesh_of: MeshOf) -> None:
    part = DTensor.from_local(torch.ones(2), mesh_of(2), [Partial(reduce_op)], run_check=False)
    with shardprop.enabled(), pytest.raises(RefusedPlacementError, match="scale as the whole"):
        unscale([part], torch.zeros(()), torch.ones(()))


def test_what_torch_refuses_stays_refused(mesh_of: MeshOf) -> None:
    """A plain gradient among others, and none."""
    x = distribute_tensor(torch.ones(4), mesh_of(2), [S(0)], src_data_rank=None)
    found = DTensor.from_local(torch.zeros(()), mesh_of(2), [R], run_check=False)
    for gradients in ([torch.ones(4), x], []):
        texts = []
        for corrections in (False, True):
            with shardprop.enabled(corrections=corrections), pytest.raises(Exception) as refused:
                unscale(gradients, found, torch.ones(()))
            texts.append(str(refused.value))
        assert texts[0] == texts[1]
