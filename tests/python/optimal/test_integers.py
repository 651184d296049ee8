"""Averages of integers keep their dtype, merged or not."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.tensor import Partial, Placement
from torch.distributed.tensor._redistribute import (
    disable_redistribute_transform_optimization as no_merging,
)

import shardprop
from shardprop import _torch

from ..specs import P, R, S, spec_of
from .enabled import TOPOLOGY, fresh_mesh

AVG = Partial("avg")


@pytest.mark.parametrize("after", [R, S(0)], ids=["all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("before", [(AVG, AVG), (P, AVG)], ids=["averages", "sum and average"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32])
def test_a_merged_average_is_what_two_are(
    before: tuple[Placement, ...], after: Placement, dtype: torch.dtype
) -> None:
    mesh = fresh_mesh(2, 2)
    mesh._flatten()
    ends = [spec_of(mesh, (4, 8), p, dtype=dtype) for p in (before, (after, after))]
    merged = shardprop.plan(*ends, topology=TOPOLOGY)
    assert merged.steps[0].mesh_dims == (0, 1)
    with no_merging():
        single = shardprop.plan(*ends, topology=TOPOLOGY)
    results = []
    for plan in (merged, single):
        with _torch.all_ranks_at_once(4):
            held = [torch.full((4, 8), -8 * (rank + 1)).to(dtype) for rank in range(4)]
            made = plan.run(_torch.as_one_tensor(held))
            results.append(_torch.tensors_of_ranks(_torch.waited(made), 4))
    for one, other in zip(*results, strict=True):
        assert one.dtype == dtype
        # Where one process stands for all ranks, a scattered average of integers becomes a float.
        assert other.dtype == dtype or after == S(0)
        assert torch.equal(one, other.to(dtype))
