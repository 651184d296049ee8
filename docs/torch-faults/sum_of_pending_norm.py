"""The sum of norms along a sharded dim adds up norms of parts.

A `_NormPartial` names "sum" as its reduction, so `common_reduction_strategy` takes it for a pending
sum and lets it pass `sum`: each rank adds the norms of its shards, and the root of the sum of
squares is taken after that instead of before. `any` does the same.

It would be fixed by comparing types besides `reduce_op`.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.tensor([[3.0, 0.0], [4.0, 1.0]])
right = torch.linalg.vector_norm(x, dim=0).sum()

with LocalTensorMode(2):
    norms = torch.linalg.vector_norm(distribute_tensor(x, mesh, [Shard(0)]), dim=0)
    found = norms.sum().full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
