"""A pooling average of integers that are pending rounds each part.

`pooling_strategy` lets a `Partial("sum")` through, as an average is linear; that of integers is
not, since it is rounded. `avg_pool2d`, `avg_pool3d` and the adaptive ones share the strategy.

It would be fixed by a look at the dtype.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.tensor([[0, 1, 0, 1], [0, 1, 0, 1]])
right = F.avg_pool1d(x.sum(0, keepdim=True), 2)

with LocalTensorMode(2):
    pending = distribute_tensor(x, mesh, [Shard(0)]).sum(0, keepdim=True)
    found = F.avg_pool1d(pending, 2).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
