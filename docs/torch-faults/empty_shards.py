"""An op raises on the ranks that have nothing of its operand, and the others wait for them.

A reduction without an identity (`amax`, `argmax`, the infinity norm) raises on a tensor without
elements. One row over two ranks leaves the second with none: it raises, while the first goes on to
the collective that reduces their results, and waits for it. Here one process does what the two
would do, and stops before that collective.

It would be fixed by rows that leave out a sharded dim which leaves some ranks nothing, or by
refusing the op on all ranks alike, since all know the shape of the whole tensor.
"""

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.tensor([[3.0, 1.0]])
right = x.amax(0)

found = []
for held in (x, x[:0]):
    local = DTensor.from_local(held, mesh, [Shard(0)], shape=x.shape, stride=x.stride())
    try:
        found.append(local.amax(0).to_local())
    except Exception as error:
        found.append(error)

print("one device:", right)
for rank, each in enumerate(found):
    print(f"rank {rank}:    ", each)
