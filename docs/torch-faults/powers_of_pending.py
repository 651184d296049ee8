"""A sum of powers of a pending sum adds up the powers of its parts.

`powsum_strategy` calls the reduction linear with reduction "sum", so a `Partial("sum")` operand
passes: each rank raises its part to the power, and (a + b)**3 is not a**3 + b**3.
`_foreach_powsum` has the same fault.

It would be fixed by `reduction_linear=False`, with a `Partial("sum")` for shards that are reduced.
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
right = torch.ops.aten.linalg__powsum(x.sum(0), 3)

with LocalTensorMode(2):
    pending = distribute_tensor(x, mesh, [Shard(0)]).sum(0)
    found = torch.ops.aten.linalg__powsum(pending, 3).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
