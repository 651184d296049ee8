"""One process for all ranks: plans hold the shapes of each, from the core as from torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, _redistribute, distribute_tensor

import shardprop
from shardprop.propagation.propagator import torch_planner

from ..narrow import known, per_rank, sharded
from ..parity.redistribute_cases import Pair, PairMix, pair_at
from ..quiet import quiet
from ..specs import SS, P, R, S, spec_of

PAIRS = 120
MIX = PairMix(mesh_ndim={1: 15, 2: 60, 3: 25})
RANKS_MOST = 32  # torch's own way takes each rank in turn


def whole(size: Any) -> object:
    """A size by its type, with the value of each rank where they differ."""
    return (type(size), getattr(getattr(size, "node", None), "_local_ints", size))


def planned(src: Any, dst: Any) -> list[Any] | str:
    """What DTensor is given, all that a step holds; an error by its name."""
    _redistribute.clear_redistribute_planner_cache()
    _redistribute._gen_transform_infos.cache_clear()
    with quiet():
        try:
            infos = _redistribute._gen_transform_infos(src, dst)
        except Exception as error:
            return type(error).__name__
    return [
        (i.mesh_dim, i.src_dst_placements, type(i.logical_shape), *map(whole, i.logical_shape))
        for i in infos
    ]


def of_ranks(plan: list[Any] | str) -> bool:
    """Has a step a size that is not the same for all ranks?"""
    return not isinstance(plan, str) and any(
        kind is torch.SymInt for step in plan for kind, _ in step[3:]
    )


def pairs(count: int) -> list[Pair]:
    """Random ones whose mesh has few ranks."""
    drawn = (pair_at(7, index, MIX) for index in range(100 * count))
    few = (p for p in drawn if p.same_mesh and p.mesh.numel <= RANKS_MOST and not p.huge)
    return [next(few) for _ in range(count)]


def both(src: Any, dst: Any) -> tuple[Any, Any]:
    """torch's plan and ours, in LocalTensorMode with the ranks of the mesh."""
    with LocalTensorMode(frozenset(src.mesh.mesh.flatten().tolist())):
        theirs = planned(src, dst)
        with shardprop.enabled(corrections=False):
            return theirs, planned(src, dst)


@pytest.mark.slow
def test_plans_are_torchs_for_every_rank() -> None:
    uneven = 0
    shardprop.reset_stats()
    for pair in pairs(PAIRS):
        # None, which the annotation leaves out, is torch's default.
        forced: Any = pair.min_cost or None
        with _redistribute.use_min_cost_redistribution_plan(forced):
            theirs, ours = both(*pair.specs())
        assert ours == theirs, str(pair)
        uneven += of_ranks(theirs)
    assert uneven > PAIRS / 20
    assert "shapes of several ranks in a plan" not in shardprop.stats().price_fallbacks


@pytest.mark.parametrize("by_graph", [False, True])
@pytest.mark.parametrize(
    "src, dst",
    [
        ([S(0), S(0)], [R, S(0)]),
        ([S(0), S(1)], [S(1), S(0)]),
        ([S(1), S(0)], [S(0), P]),
        ([SS(0, 4), S(0)], [R, R]),
    ],
    ids=str,
)
def test_uneven_sizes_stay_each_ranks_own(
    src: list[Placement], dst: list[Placement], by_graph: bool
) -> None:
    mesh = DeviceMesh("cpu", torch.tensor([[3, 0, 5, 1], [2, 4, 7, 6]]), _init_backend=False)
    ends = [spec_of(mesh, (13, 3), placements) for placements in (src, dst)]
    shardprop.reset_stats()
    with _redistribute.use_min_cost_redistribution_plan(by_graph):
        theirs, ours = both(*ends)
    assert isinstance(theirs, list)
    assert ours == theirs
    assert of_ranks(theirs)
    assert shardprop.stats().price_fallbacks == {}


def test_plans_held_are_those_of_the_ranks() -> None:
    with shardprop.enabled():
        for ranks in ([0, 1], [1, 0], [0, 2], [0, 1]):
            mesh = DeviceMesh("cpu", torch.tensor(ranks), _init_backend=False)
            mesh_2d = DeviceMesh("cpu", torch.tensor([ranks]), _init_backend=False)
            for each, placements in ((mesh, [S(0)]), (mesh_2d, [S(1), S(0)])):
                src, dst = spec_of(each, (5, 3), placements), spec_of(each, (5, 3), [R] * each.ndim)
                with LocalTensorMode(frozenset(ranks)):
                    ours = torch_planner().transform_infos(src, dst)
                    theirs = _redistribute.DTensorRedistributePlanner(each, known(dst.tensor_meta))
                    expected = theirs.generate_greedy_transform_infos(src, dst)
                shapes = [[whole(size) for size in info.logical_shape] for info in ours]
                assert shapes == [[whole(s) for s in info.logical_shape] for info in expected]


def test_while_the_mode_is_off_a_plan_is_this_ranks(mesh_of: Any) -> None:
    src, dst = (spec_of(mesh_of(2, 4), (13, 3), layout) for layout in [(S(0), S(0)), (R, R)])
    with shardprop.enabled():
        alone = planned(src, dst)
        with LocalTensorMode(8) as mode, mode.disable():
            assert planned(src, dst) == alone
    assert not of_ranks(alone)


def attention_step(mesh: DeviceMesh) -> dict[str, torch.Tensor]:
    """Forward and backward, with sizes that no mesh dim divides."""

    def laid_out(shape: tuple[int, ...], placements: list[Placement], seed: int) -> Any:
        torch.manual_seed(seed)
        return distribute_tensor(torch.randn(shape), mesh, placements).requires_grad_()

    x = laid_out((13, 10), [S(0), S(0)], 0)
    qkv = [laid_out((10, 7), [R, S(1)], 1 + i) for i in range(3)]
    norm = laid_out((10,), [R, R], 4)
    query, key, value = (F.layer_norm(x, (10,), norm, norm) @ w for w in qkv)
    mixed = torch.softmax(query @ key.t(), -1) @ value
    moved = mixed.redistribute(placements=[S(1), S(0)]).redistribute(placements=[S(0), S(1)])
    loss = (moved @ qkv[0].t() + x).square().mean()
    loss.backward()
    found = {"loss": loss, "x": x.grad, "norm": norm.grad}
    found |= {f"weight {i}": w.grad for i, w in enumerate(qkv)}
    return {name: of_all(tensor) for name, tensor in found.items()}


def of_all(tensor: DTensor) -> torch.Tensor:
    """The whole tensor, which is the same on all ranks."""
    return per_rank(sharded(tensor.detach()).full_tensor()).reconcile()


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 2), (3, 2)], ids=str)
@pytest.mark.parametrize("by_graph", [False, True])
def test_a_program_has_the_same_results(shape: tuple[int, int], by_graph: bool) -> None:
    ranks = shape[0] * shape[1]

    def run() -> dict[str, torch.Tensor]:
        with LocalTensorMode(ranks), quiet():
            mesh = DeviceMesh("cpu", torch.arange(ranks).reshape(shape))
            with _redistribute.use_min_cost_redistribution_plan(by_graph):
                return attention_step(mesh)

    alone = run()
    shardprop.clear_caches()
    shardprop.reset_stats()
    with shardprop.enabled():
        ours = run()
    assert ours.keys() == alone.keys()
    for name, tensor in alone.items():
        assert torch.equal(ours[name], tensor), name
    stats = shardprop.stats()
    assert stats.decisions > 5
    assert stats.price_fallbacks == {}


@pytest.mark.parametrize("topology", ["torch", "cpu-gloo", "h100-nvlink"])
def test_policy_optimal_decides_in_one_process(topology: str, mesh_of: Any) -> None:
    """A topology asks which ranks a group has."""
    mesh = mesh_of(4)
    with LocalTensorMode(4), shardprop.enabled(policy="optimal", topology=topology, strict=True):
        given = torch.arange(64.0).reshape(8, 8)
        x = distribute_tensor(given, mesh, [S(1)])
        made = sharded(x @ x).redistribute(placements=[R])
        local = per_rank(made.to_local())._local_tensors
    assert len(local) == 4
    assert all(torch.equal(each, given @ given) for each in local.values())
