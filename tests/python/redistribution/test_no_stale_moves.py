"""A move is never that of another tensor: many threads, copies, meshes alike, full caches.

Moves from whole to sharded, and their gradients, whose values need no other rank.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

import shardprop
from shardprop.support import cache

from ..device import DEVICE
from ..specs import R, S
from ..threads import at_once, switching_often

MeshOf = Callable[..., DeviceMesh]
THREADS = 16


@pytest.fixture
def meshes(mesh_of: MeshOf) -> list[DeviceMesh]:
    """Of one shape, with this rank in another place of each; and two of other shapes."""
    ranks = torch.arange(8).reshape(2, 4)
    alike = [ranks, ranks.flip(0), ranks.flip(1), ranks.flip(0, 1)]
    return [*(DeviceMesh(DEVICE, order) for order in alike), mesh_of(8), mesh_of(2, 2, 2)]


def seen_on(mesh: DeviceMesh, size: int) -> list[Any]:
    """What a program sees of all moves of two tensors on a mesh."""
    found: list[Any] = []
    for dtype, targets in itertools.product(
        (torch.float32, torch.float64), itertools.product([R, S(0), S(1)], repeat=mesh.ndim)
    ):
        whole = torch.arange(8.0 * size, dtype=dtype, device=DEVICE).reshape(8, size)
        leaf = whole.clone().requires_grad_()
        x = DTensor.from_local(leaf, mesh, [R] * mesh.ndim, run_check=False)
        moved: Any = x.redistribute(placements=targets)
        again = moved.detach().redistribute(placements=targets)
        (x.redistribute(placements=[R] * mesh.ndim).to_local() * whole).sum().backward()
        assert leaf.grad is not None
        for made in (moved, again):
            found.append((made.placements, made.shape, made.stride(), made.to_local().tolist()))
        found.append((leaf.grad.dtype, leaf.grad.tolist()))
    return found


def seen(meshes: list[DeviceMesh], sizes: range) -> list[Any]:
    return [seen_on(mesh, size) for size in sizes for mesh in meshes]


@pytest.mark.slow
def test_sixteen_threads_move_as_torch_does(meshes: list[DeviceMesh]) -> None:
    sizes = range(2, 4)
    expected = seen(meshes, sizes)
    found: dict[int, Any] = {}

    def work(thread: int) -> None:
        if thread == 0:  # whatever is forgotten meanwhile
            for _ in range(50):
                shardprop.clear_caches()
        found[thread] = seen(meshes, sizes)

    with shardprop.enabled(), switching_often():
        at_once(work, THREADS)
    assert [found.get(thread) == expected for thread in range(THREADS)] == [True] * THREADS


def test_policies_and_the_executor_may_change_between_moves(meshes: list[DeviceMesh]) -> None:
    expected = seen(meshes, range(2, 3))
    optimal: dict[str, Any] = {"policy": "optimal", "topology": "torch"}
    for options in ({}, optimal, {"executor": False}, {"corrections": False}, {}):
        with shardprop.enabled(**options):
            assert seen(meshes, range(2, 3)) == expected


def test_full_caches_forget_and_nothing_is_found_under_a_number_used_again(
    meshes: list[DeviceMesh], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [
        each
        for each in cache._caches
        if isinstance(each, cache.BoundedMap) and each.name in ("moves", "specs with moves")
    ]
    shardprop.clear_caches()
    for each in held:
        monkeypatch.setattr(each, "_capacity", 3)
    expected = seen(meshes, range(2, 5))
    with shardprop.enabled():
        assert seen(meshes, range(2, 5)) == expected
        assert 0 < shardprop.stats().caches["moves"].entries <= 3 * len(held)


def test_meshes_that_are_gone_leave_no_move_to_one_of_the_same_number() -> None:
    ranks = torch.arange(8).reshape(2, 4)
    orders = [ranks, ranks.flip(0), ranks.flip(1), ranks.flip(0, 1)]
    expected = [seen_on(DeviceMesh(DEVICE, order), 3) for order in orders]
    with shardprop.enabled():
        for _ in range(2):
            assert [seen_on(DeviceMesh(DEVICE, order), 3) for order in orders] == expected
            shardprop.clear_caches()  # and so the meshes are gone


def test_a_deep_copy_moves_as_what_it_was_copied_from(meshes: list[DeviceMesh]) -> None:
    def shown(x: DTensor) -> list[Any]:
        to = [
            x.redistribute(placements=[S(dim), *[R] * (x.device_mesh.ndim - 1)]) for dim in (0, 1)
        ]
        return [(made.placements, made.to_local().tolist()) for made in to]

    with shardprop.enabled():
        for mesh in meshes:
            whole = torch.arange(24.0, device=DEVICE).reshape(8, 3)
            x = DTensor.from_local(whole, mesh, [R] * mesh.ndim, run_check=False)
            expected = shown(x)
            copied = copy.deepcopy(x)
            with torch.no_grad():
                x.zero_()
            assert shown(copied) == expected
            assert shown(copied) == expected
