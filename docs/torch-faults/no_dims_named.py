"""A reduction over an empty list of dims, which reduces all of them, is taken for one of no dim.

`_infer_reduction_dims` returns the empty list as it is, and the strategies of reductions
(`linear_reduction_strategy` and its like) then find no shard that is reduced: each rank reduces its
own shard, and the output claims to be sharded as the input was. Autograd makes such calls itself:
the gradients of `amax`, `amin` and the infinity norm of a sharded tensor are not numbers.

It would be fixed by taking an empty list for all dims, as these ops do.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.arange(8.0).reshape(4, 2)
whole = x.clone().requires_grad_()
whole.amax().backward()
right = whole.grad.isnan().sum(), x.sum(dim=[], keepdim=True)

with LocalTensorMode(2):
    sharded = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
    sharded.amax().backward()
    not_numbers = sharded.grad.isnan().sum()
    total = sharded.detach().sum(dim=[], keepdim=True)
    found = not_numbers.full_tensor().reconcile(), total.full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
