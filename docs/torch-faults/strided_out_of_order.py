"""A move to a strided shard outside of a plain one cuts in the wrong order.

A `_StridedShard` whose split factor fits no mesh dim stands for no shard order, so the greedy
planner plans (`generate_greedy_transform_infos`). It looks for misaligned nested shards among plain
ones only: what mesh dim 1 holds already stays, and mesh dim 0 cuts inside of it. It also works out
the sizes that are cut from plain shards alone, so that a gather raises, or pads, in the other
direction.

It would be fixed by treating `_StridedShard` as `Shard` in both places.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore

# Four ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = dist.init_device_mesh("cpu", (2, 2))

x = torch.arange(12.0)
# Mesh dim 0 takes every other pair of elements, and mesh dim 1 one half of what that leaves.
right = x.reshape(3, 2, 2)[:, 0].flatten()[:3]

with LocalTensorMode(4):
    plain = distribute_tensor(x, mesh, [Replicate(), Shard(0)])
    nested = plain.redistribute(placements=[_StridedShard(0, split_factor=3), Shard(0)])
    found = nested.to_local()._local_tensors[0]

print("should be on rank 0:", right)
print("is on rank 0:       ", found)
