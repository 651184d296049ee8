"""A convolution whose operands would have to move runs on them as they are.

`convolution_handler` (`_tp_conv.py`) asks for a decision and does not carry it out: it runs on the
local tensors that it was given, and says of the result what was decided. Here the images are
sharded by channels; the decision is to gather them, and each rank has the sum of its own.

It would be fixed by redistributing the operands as the dispatcher does for any op, or by leaving
the handler out.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x, weight = torch.ones(1, 2, 8), torch.ones(1, 2, 3)
right = torch.conv1d(x, weight)

with LocalTensorMode(2):
    operands = [distribute_tensor(each, mesh, [Shard(1)]) for each in (x, weight)]
    found = torch.conv1d(*operands).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
