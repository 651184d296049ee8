"""`argmax` of a sharded dim says that its result is sharded, which it is not.

`argminmax_handler` reduces what each rank holds, gathers that, and has the whole result on each
rank. It claims the placements that were decided. With the rows that torch 2.15 has for the op the
decision may be to shard another dim, for an all-to-all costs less than an all-gather: then the
whole result passes for a shard.

It would be fixed by moving the operand as decided, or by placing the result as the handler made it.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Four ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = dist.init_device_mesh("cpu", (2, 2))

x = torch.arange(48).reshape(4, 3, 4) * 7 % 48
right = x.argmax(0)

with LocalTensorMode(4):
    made = distribute_tensor(x, mesh, [Shard(0), Replicate()]).argmax(0)
    found = made.full_tensor().reconcile()

print("one device:", right)
print("four ranks:", found)
