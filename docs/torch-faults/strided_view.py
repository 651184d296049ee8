"""A view of a strided shard takes what a rank holds for a strided shard of the output.

Flattening a tensor whose second dim is sharded leaves a `_StridedShard` of the flat dim. A view of
that in another shape looks for an output dim that the split factor fits (`view_groups` and
`propagate_shape_and_sharding`), but not whether the runs of elements that a rank holds are the runs
of that dim. They are not where the sizes of the two shapes interleave, and the values turn up in
other places. Where sizes do not divide, the view raises on some ranks alone.

It would be fixed by comparing the lengths of the runs.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.arange(12.0).reshape(3, 2, 2)
right = x.view(6, 2).view(2, 6)

with LocalTensorMode(2):
    found = distribute_tensor(x, mesh, [Shard(1)]).view(6, 2).view(2, 6).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
