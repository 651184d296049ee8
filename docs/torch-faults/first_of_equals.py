"""`argmax` gives the index of another of equal elements than on one device.

`argminmax_handler` gathers what each rank has found and takes the first rank that has the extreme.
Of columns that is not the rank which has the first of equal elements, counted row by row; of a dim
that two mesh dims shard the ranks come in another order than what they hold.

It would be fixed by comparing the gathered indices where the values are equal.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.tensor([[0, 7], [7, 0]])
right = x.argmax()

with LocalTensorMode(2):
    found = distribute_tensor(x, mesh, [Shard(1)]).argmax().full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
