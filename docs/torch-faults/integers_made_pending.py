"""Integers that become a pending sum are divided, and are floats of 32 bits from then on.

`Partial._partition_value` divides by the number of ranks, so that the parts add up. Integers become
floats of the default dtype by that, whose digits do not suffice for large ones. So they do within
an op, where adding to what is pending is cheaper than reducing it.

It would be fixed by leaving integers whole on one rank, and zeros on the others.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.tensor import DTensor, Partial, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Three ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=3)
mesh = dist.init_device_mesh("cpu", (3,))

x, n = torch.tensor([1.0], dtype=torch.float64), torch.tensor([123456789])
right = x * 3 + n - n

with LocalTensorMode(3):
    pending = DTensor.from_local(
        LocalTensor({rank: x for rank in range(3)}), mesh, [Partial()], run_check=False
    )
    number = distribute_tensor(n, mesh, [Replicate()])
    found = (pending + number).full_tensor().reconcile() - n

print("beyond the integer on one device: ", right)
print("beyond the integer on three ranks:", found)
