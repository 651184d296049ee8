"""An in-place op moves what it writes into: it writes into a copy, which is dropped.

Where the dispatcher decides an op by its decomposition, nothing says that what an in-place op
writes into has to stay: `DecompShardingStrategy` expands the rows as they are, and the cheapest
strategy may move it. The op then runs on what was moved, and the operand gets the spec of that,
while it still holds what it held. Other ops that write into an operand and are not named as
in-place ones are moved likewise: the running statistics of batch norm are not updated where the
channels of the input are sharded.

It would be fixed by pinning in the search what the schema says is written into.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.arange(24.0).reshape(2, 4, 3)
mean, variance = torch.zeros(4), torch.ones(4)
right = mean.clone()
torch.nn.functional.batch_norm(x, right, variance.clone(), training=True, momentum=1.0)

with LocalTensorMode(2):
    placed = distribute_tensor(x, mesh, [Shard(1)])
    held, other = (distribute_tensor(each, mesh, [Replicate()]) for each in (mean, variance))
    torch.nn.functional.batch_norm(placed, held, other, training=True, momentum=1.0)
    found = held.full_tensor()

print("running mean on one device:", right)
print("running mean on two ranks: ", found)
