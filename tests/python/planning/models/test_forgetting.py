"""What plans for models have found out can be forgotten, while they live."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import Replicate, Shard

import shardprop
from shardprop import graph

from .models import Mlp


def test_clear_caches_empties_the_caches_of_living_plans(mesh_of: Any) -> None:
    mesh = mesh_of(2, 2)
    constraints = {"up.weight": [Replicate(), Shard(0)], "down.weight": [Shard(1), Replicate()]}
    plan = graph.capture(
        Mlp(), (torch.ones(4, 16),), mesh, topology="h100-nvlink", parameters=constraints
    ).solve()
    before = plan.volume
    assert before.redistributions > 0
    assert shardprop.stats().caches["exact plans"].entries > 0
    shardprop.clear_caches()
    assert shardprop.stats().cache_entries == 0
    del plan.__dict__["volume"], plan.__dict__["redistributions"]
    assert plan.volume == before
