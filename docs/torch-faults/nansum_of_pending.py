"""`nansum` of a pending sum counts what it should leave out.

`nansum` is in `LINEAR_REDUCTION_OP_MAP`, so a `Partial("sum")` passes. Where the part of one rank
is nan the whole is, and should be left out with what the other ranks hold; but they add theirs.

It would be fixed by a rule of its own, which reduces a Partial first.
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
x[0, 0] = torch.nan
right = x.sum(0).nansum()

with LocalTensorMode(2):
    pending = distribute_tensor(x, mesh, [Shard(0)]).sum(0)
    found = pending.nansum().full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
