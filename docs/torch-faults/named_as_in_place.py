"""A shift by a number returns what is to be shifted.

`OpSchema.is_inplace_op` looks at the last character of the op's name, and that of
`aten.__lshift__.Scalar` is an underscore. The dispatcher then returns the operand, and drops what
the op has computed. `__rshift__` has the same fault; in inference mode, where composite ops reach
the dispatcher whole, `__and__`, `__or__` and `__xor__` have it, too.

It would be fixed by asking the schema of the op whether it writes into an argument.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.tensor([1, 2, 3, 4])
right = x << 2

with LocalTensorMode(2):
    found = (distribute_tensor(x, mesh, [Shard(0)]) << 2).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
