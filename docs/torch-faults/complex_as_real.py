"""Real and imaginary parts of a pending product are multiplied each by themselves.

`view_as_real` is registered as a view (`dim_view_as_real`), and a view passes a Partial on whatever
its reduction is. The real part of a product takes both parts of each factor. Strided shards of the
last dim end on the new dim besides.

It would be fixed by a rule that reduces a `Partial("product")` first.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.full((2, 1), 1 + 1j)
right = torch.view_as_real(x.prod(0))

with LocalTensorMode(2):
    pending = distribute_tensor(x, mesh, [Shard(0)]).prod(0)
    found = torch.view_as_real(pending).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
