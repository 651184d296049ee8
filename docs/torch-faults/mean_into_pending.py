"""A mean of all elements that is written into a pending average weighs ranks, not elements.

`mean_single_dim_strategy` of torch 2.15 comes with a filter that keeps it off uneven shards. The
strategy of `mean.dtype_out` is generated from it (`_ops/autogen.py`), and generated strategies have
no filter. (torch 2.13 has no strategy for the overload.)

It would be fixed by generated strategies that keep the filter.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.tensor([0.0, 0.0, 6.0])
right = torch.mean(x, out=torch.empty(()))

with LocalTensorMode(2):
    sharded = distribute_tensor(x, mesh, [Shard(0)])
    pending = DTensor.from_local(torch.zeros(()), mesh, [Partial("avg")], run_check=False)
    try:
        found = torch.mean(sharded, out=pending).full_tensor().reconcile()
    except RuntimeError as error:
        found = error

print("one device:", right)
print("two ranks: ", found)
