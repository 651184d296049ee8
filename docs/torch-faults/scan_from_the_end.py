"""`cumsum` along a sharded dim that is counted from the end scans each shard by itself.

`scan_strategy` passes the dim on as it is given. `replicate_reduction_dims` compares it with the
dims of the shards, which are counted from the front: -1 equals none of them, so nothing is
gathered. `cumprod` and `logcumsumexp` share the strategy.

It would be fixed by `normalize_dim`, or by a single-dim rule.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.ones(2, 4)
right = x.cumsum(-1)

with LocalTensorMode(2):
    found = distribute_tensor(x, mesh, [Shard(1)]).cumsum(-1).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
