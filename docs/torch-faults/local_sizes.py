"""The gradient of a mean loss over sharded batches is too large by the number of ranks.

The backward of `mse_loss` has no sharding rule, so `DecompShardingStrategy` runs its decomposition
on meta tensors of the global shapes and keeps the placements that need no communication. What then
runs on each rank is the op itself, on its shard: it divides by the number of elements of the shard,
not of the whole tensor. Any decomposition that reads a size is affected: `smooth_l1_loss`,
`huber_loss`, `binary_cross_entropy` and `soft_margin_loss` in their gradients, and on uneven shards
the values of mean losses.

It would be fixed by rules for these ops, or by dropping a placement for which the decomposition
on the local shapes has other numbers in it than on the global ones.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x, y = torch.arange(8.0).reshape(4, 2), torch.zeros(4, 2)
whole = x.clone().requires_grad_()
F.mse_loss(whole, y).backward()
right = whole.grad

with LocalTensorMode(2):
    sharded = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
    F.mse_loss(sharded, distribute_tensor(y, mesh, [Shard(0)])).backward()
    found = sharded.grad.full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
