"""`new_ones` of a tensor that is sharded and pending is pending as well.

`new_factory_strategy` takes over the placements of its operand if they have a shard, a Partial
beside it included: on a mesh of two dims every rank writes ones, which are added up over the other
dim. `new_full` does the same. (Without a shard the output is replicated, for this very reason.)

It would be fixed by taking over the shards alone.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Partial, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Four ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = dist.init_device_mesh("cpu", (2, 2))

x = torch.zeros(2, 2)
right = x.new_ones(2, 2)

with LocalTensorMode(4):
    pending = distribute_tensor(x, mesh, [Shard(0), Partial()])
    found = pending.new_ones(2, 2).full_tensor().reconcile()

print("one device:", right)
print("four ranks: ", found)
