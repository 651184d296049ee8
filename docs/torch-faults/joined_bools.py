"""Joined with numbers, a pending logical or becomes a count.

A pending sum of bools is a logical or. `cat_strategy` lets a Partial pass that all operands have,
without a look at dtypes; the bools become numbers, and what is reduced is a sum of those.
`stack` does the same.

It would be fixed by reducing a Partial where the dtypes differ.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode, rank_map
from torch.distributed.tensor import DTensor, Partial
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

flags, numbers = torch.ones(2, dtype=torch.bool), torch.zeros(2)
right = torch.cat([flags, numbers])

with LocalTensorMode(2):
    either, total = (
        DTensor.from_local(rank_map(lambda rank, x=x: x), mesh, [Partial()])
        for x in (flags, numbers)
    )
    found = torch.cat([either, total]).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
