"""Policy ``optimal`` while a program runs: nesting, caches, modes and threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._utils import ExplicitRedistributionContext

import shardprop
from shardprop import _torch

from ..narrow import sharded
from .random_redistributions import TOPOLOGIES

R, S, P = Replicate(), Shard, Partial
LAUNCHES, WIRE, MEMORY = TOPOLOGIES


def optimal(topology: Any) -> Any:
    return shardprop.enabled(policy="optimal", topology=topology)


@pytest.fixture
def mesh(mesh_of: Callable[..., DeviceMesh]) -> DeviceMesh:
    return mesh_of(2, 2)


def spread(mesh: DeviceMesh, shape: tuple[int, ...], *placements: Any) -> DTensor:
    return distribute_tensor(torch.ones(shape), mesh, placements, src_data_rank=None)


def test_a_decision_is_made_again_whenever_the_policy_changes(mesh: DeviceMesh) -> None:
    x, y = spread(mesh, (64, 64), S(0), R), spread(mesh, (64, 64), R, S(0))

    def decided() -> tuple[Any, ...]:
        # Twice: the second time torch's cache in C++ answers.
        first, second = (sharded(x @ y).placements for _ in range(2))
        assert first == second
        return first

    torchs = decided()
    with optimal(MEMORY):
        for_memory = decided()
        with optimal(LAUNCHES):
            for_launches = decided()
            with shardprop.enabled():
                assert decided() == torchs
            assert decided() == for_launches
        assert decided() == for_memory
    assert decided() == torchs
    assert for_memory != for_launches


def test_what_was_put_in_the_place_of_torchs_is_gone_after_it(mesh: DeviceMesh) -> None:
    with optimal(LAUNCHES), optimal(WIRE):
        pass
    assert not shardprop.is_enabled()
    from torch.distributed.tensor import _collective_utils, _redistribute

    assert _redistribute.redistribute_local_tensor is _torch.torch_redistribute
    assert _collective_utils.redistribute_cost is _torch.torch_redistribute_cost


@pytest.mark.parametrize("strict", [False, True])
def test_implicit_redistributions_are_refused_where_they_communicate(
    mesh: DeviceMesh, strict: bool
) -> None:
    x, replicated, other = (
        spread(mesh, (8, 8), *placements) for placements in ((S(0), R), (R, R), (S(1), R))
    )
    with optimal("h100-nvlink"), ExplicitRedistributionContext(strict=strict):
        assert sharded(x + x).placements == (S(0), R)
        with pytest.raises(RuntimeError, match="mplicit"):
            x * other  # of a sum one could be filled with zeros, which sends nothing
        # To cut a replicated tensor costs local work, and sends nothing.
        if strict:
            with pytest.raises(RuntimeError, match="mplicit"):
                x + replicated
        else:
            assert sharded(x + replicated).placements == (S(0), R)
        assert x.redistribute(placements=(R, R)).placements == (R, R)


def test_one_process_stands_in_for_all_ranks(process_group: None) -> None:
    generator = torch.Generator().manual_seed(0)
    whole, weight = (torch.randn(s, generator=generator) for s in ((7, 6), (6, 5)))
    for topology in TOPOLOGIES:
        shardprop.reset_stats()
        with _torch.all_ranks_at_once(4), optimal(topology):
            mesh = DeviceMesh("cpu", torch.arange(4).reshape(2, 2), mesh_dim_names=("a", "b"))
            mesh._flatten()
            x = distribute_tensor(whole, mesh, [S(0), S(1)]).requires_grad_()
            y = sharded(F.layer_norm(x @ distribute_tensor(weight, mesh, [S(0), R]), (5,)))
            total = y.redistribute(placements=[S(1), S(0)]).square().sum()
            sharded(total).full_tensor().backward()
            made = [y.full_tensor().detach(), sharded(x.grad).full_tensor()]
            of_ranks = [_torch.tensors_of_ranks(tensor, 4) for tensor in made]
        plain = whole.clone().requires_grad_()
        expected = F.layer_norm(plain @ weight, (5,))
        expected.square().sum().backward()
        for ranks, wanted in zip(of_ranks, (expected.detach(), plain.grad), strict=True):
            for found in ranks:
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_fake_tensors_go_by_the_same_plans(mesh: DeviceMesh) -> None:
    with optimal(LAUNCHES):
        x = spread(mesh, (8, 8), S(0), S(1))
        real = x.redistribute(placements=(S(1), R)).to_local()
        shardprop.reset_stats()
        with FakeTensorMode():
            fake = DTensor.from_local(torch.empty(4, 4), mesh, (S(0), S(1)), run_check=False)
            made = fake.redistribute(placements=(S(1), R)).to_local()
        assert made.shape == real.shape
        meta = DTensor.from_local(
            torch.empty(4, 4, device="meta"), mesh, (S(0), S(1)), run_check=False
        )
        assert sharded(meta @ meta).to_local().is_meta
        assert shardprop.stats().policy_fallbacks == {}


def test_threads_make_the_same_decisions_and_plans(mesh: DeviceMesh) -> None:
    barrier = threading.Barrier(8)
    found: list[Any] = [None] * 8

    def work(number: int) -> None:
        barrier.wait()
        made: list[tuple[object, ...]] = []
        for size in (8, 16, 24):
            x, y = spread(mesh, (size, size), S(0), S(1)), spread(mesh, (size, size), S(1), R)
            made.append(sharded(x @ y).placements)
            made.append(x.redistribute(placements=(R, S(0))).to_local().shape)
        found[number] = made

    with optimal(WIRE):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found[0] is not None
    assert found == [found[0]] * 8
