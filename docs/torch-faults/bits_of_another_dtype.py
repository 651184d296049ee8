"""The bits of a pending sum are read as numbers of another dtype, and added up as such.

`view.dtype` is among the ops of `propagate_single_input_strategy`, which passes every placement on.
The bits of a sum of floats are not the sum of their bits as integers. Likewise shards of a dim that
changes its size: uneven ones are cut elsewhere.

It would be fixed by a rule of its own for `view.dtype`.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.ones(2, 3)
right = x.sum(0).view(torch.int32)

with LocalTensorMode(2):
    pending = distribute_tensor(x, mesh, [Shard(0)]).sum(0)
    found = pending.view(torch.int32).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
