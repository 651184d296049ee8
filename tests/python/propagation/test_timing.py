"""Each propagation is reported once, and what happens inside of it is a part of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard, distribute_tensor

import shardprop
from shardprop.cli.decisions import clear_every_cache
from shardprop.propagation.timing import watch_propagation

MeshOf = Callable[..., DeviceMesh]

aten = torch.ops.aten


@pytest.mark.parametrize("enabled", [False, True])
def test_calls_inside_a_decomposition_are_not_reported(mesh_of: MeshOf, enabled: bool) -> None:
    """torch asks itself about each of them, and so do we where a rule lists no rows."""
    x, y = (
        distribute_tensor(torch.ones(4, 6), mesh_of(2), [Shard(0)], src_data_rank=None)
        for _ in range(2)
    )
    reported: list[torch._ops.OpOverload] = []
    if enabled:
        shardprop.enable()
    try:
        clear_every_cache()
        with watch_propagation(lambda schema, *_: reported.append(schema.op)):
            torch.nn.functional.huber_loss(x, y)
    finally:
        shardprop.disable()
    assert [*dict.fromkeys(reported)] == [aten.huber_loss.default]
