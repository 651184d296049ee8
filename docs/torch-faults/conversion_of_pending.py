"""A reduction that converts what is pending converts the parts, and not the whole.

`linear_reduction_strategy` lets a Partial with the reduction of the op pass without a look at
dtypes. Fractions are cut off one by one where the whole has none; a pending sum of bools, which is
a logical or, becomes a count where the op adds them up as numbers.

It would be fixed by the check that `_to_copy` has (`_partial_needs_reduce_for_dtype_cast`).
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode, rank_map
from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.full((2, 3), 0.5)
flags = torch.ones(3, dtype=torch.bool)
right = x.sum(0).sum(dtype=torch.int64), flags.sum()

with LocalTensorMode(2):
    pending = distribute_tensor(x, mesh, [Shard(0)]).sum(0)
    either = DTensor.from_local(rank_map(lambda rank: flags), mesh, [Partial()])
    found = (
        pending.sum(dtype=torch.int64).full_tensor().reconcile(),
        either.sum().full_tensor().reconcile(),
    )

print("one device:", right)
print("two ranks: ", found)
