"""`gather` with an index that is smaller than what it indexes takes elements of other rows.

`gather_strategy` shards operand and index alike on every dim that the index does not run along. An
index may be smaller there: it belongs to the first rows, and each rank pairs its part of the index
with the rows that it happens to hold. `scatter_add` does the same.

It would be fixed by sharding only dims of one size, as the rule of `scatter` does in torch 2.15.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x, index = torch.arange(8).reshape(4, 2), torch.zeros(2, 2, dtype=torch.int64)
right = x.gather(1, index)

with LocalTensorMode(2):
    rows, wanted = (distribute_tensor(each, mesh, [Shard(0)]) for each in (x, index))
    found = rows.gather(1, wanted).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
