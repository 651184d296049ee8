"""A write into a view does not reach the tensor, where torch has gathered it to make the view.

`x[1:3]` needs rows that are not sharded, so the dispatcher gathers `x` and cuts the view from the
copy. To autograd, and to whoever reads the program, it is a view of `x`; what an in-place op writes
into it is in the copy alone. So `nn.Embedding.reset_parameters` leaves the row of its `padding_idx`
as it was drawn, where the rows of its weight are sharded.

It would be fixed by an in-place op that looks whether its operand is a view whose storage is not
that of its base, and writes into the base too, or raises.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.arange(1.0, 7.0)
with LocalTensorMode(2):
    placed = distribute_tensor(x, mesh, [Shard(0)])
    placed[1:3].zero_()
    found = placed.full_tensor()
right = x.clone()
right[1:3].zero_()

print("on one device:", right)
print("on two ranks: ", found)
