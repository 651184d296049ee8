"""Redistributions to measure: those that a cost model says torch's plan makes dear, and others."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Partial, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

import shardprop
from shardprop import Plan, Topology

# float32 tensors of so many MiB; every dim can be cut evenly.
SHAPES = {1: (64, 64, 64), 4: (64, 128, 128), 16: (128, 128, 256), 32: (128, 256, 256)}
PLACEMENTS: tuple[Placement, ...] = (Replicate(), Partial(), Shard(0), Shard(1), Shard(2))
GAIN = 2.0

Layout = tuple[Placement, ...]
Pair = tuple[Layout, Layout]


@dataclass(frozen=True)
class Case:
    """One redistribution with both plans, priced under one topology."""

    mib: int
    torch: Plan
    optimal: Plan

    @property
    def gain(self) -> float:
        """torch's price over ours."""
        return self.torch.cost_us / self.optimal.cost_us

    def __str__(self) -> str:
        source, target = (
            "".join(map(str, spec.placements)) for spec in (self.torch.src, self.torch.dst)
        )
        return f"{self.mib} MiB {source}->{target}"


def chosen(
    mesh: DeviceMesh, topology: Topology, mib: int, dear: int, others: int
) -> tuple[list[Case], int]:
    """At most `dear` pairs with a modelled gain over `GAIN` and `others` with less, the same on
    every rank; and how many pairs have such a gain."""
    told: list[Any] = [None]
    if dist.get_rank() == 0:  # one rank looks through all pairs: the processes share few cores
        told = [_sample(mesh, topology, mib, dear, others)]
    dist.broadcast_object_list(told)
    pairs, above = told[0]
    return [_case(mesh, topology, mib, *pair) for pair in pairs], above


def _sample(
    mesh: DeviceMesh, topology: Topology, mib: int, dear: int, others: int
) -> tuple[list[Pair], int]:
    """Pairs in the default order of shards, and how many there are with a gain over `GAIN`."""
    above: list[Pair] = []
    below: list[Pair] = []
    for pair in itertools.permutations(itertools.product(PLACEMENTS, repeat=mesh.ndim), 2):
        try:
            case = _case(mesh, topology, mib, *pair)
        except shardprop.ShardpropError:
            continue  # a Partial of data that is sharded, or beside what it does not mix with
        if case.optimal.cost_us > 0:
            (above if case.gain > GAIN else below).append(pair)
    dice = random.Random(mib)
    samples = ((above, dear), (below, others))
    return [p for of, most in samples for p in dice.sample(of, min(most, len(of)))], len(above)


def _case(mesh: DeviceMesh, topology: Topology, mib: int, source: Layout, target: Layout) -> Case:
    """
    Raises:
        ShardpropError: one of the two has no plan that can be priced.
    """
    src, dst = (_spec(mesh, placements, SHAPES[mib]) for placements in (source, target))
    return Case(
        mib,
        shardprop.plan(src, dst, policy="torch", topology=topology),
        shardprop.plan(src, dst, policy="optimal", topology=topology),
    )


def _spec(
    mesh: DeviceMesh, placements: tuple[Placement, ...], shape: tuple[int, ...]
) -> DTensorSpec:
    whole = torch.empty(shape, device="meta")
    return DTensorSpec(
        mesh, placements, tensor_meta=TensorMeta(whole.shape, whole.stride(), whole.dtype)
    )


def local_of(spec: DTensorSpec) -> torch.Tensor:
    """What this rank holds: whole numbers, so that sums in any order are the same."""
    whole = torch.arange(spec.shape.numel(), dtype=torch.float32).remainder_(1009)
    pending = [dim for dim, p in enumerate(spec.placements) if p.is_partial()]
    cuts = [Replicate() if p.is_partial() else p for p in spec.placements]
    cut = distribute_tensor(whole.view(spec.shape), spec.mesh, cuts, src_data_rank=None)
    share = 1 + sum(spec.mesh.get_local_rank(dim) for dim in pending)
    return cut.to_local().mul(share).contiguous()


def check_same(case: Case) -> None:
    """Both plans lead to the same data on this rank.

    Raises:
        AssertionError: they do not.
    """
    local, spec = local_of(case.torch.src), case.torch.dst
    made = [plan.run(local).clone() for plan in (case.torch, case.optimal)]
    for dim, placement in enumerate(spec.placements):
        if placement.is_partial():  # the parts may differ, their sum may not
            for tensor in made:
                dist.all_reduce(tensor, group=spec.mesh.get_group(dim))
    torch.testing.assert_close(*made, rtol=1e-5, atol=0.0, msg=lambda why: f"{case}: {why}")
