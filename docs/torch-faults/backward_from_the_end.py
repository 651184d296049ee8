"""The gradient of a slice of a dim that is counted from the end lands in the wrong places.

`slice_backward_rules` compares the dim as it is given with the dims of the shards, which are
counted from the front. A shard of the sliced dim stays, and each rank pads its own piece.
`select_backward_strategy` has a similar fault: `shift_shard_dims_after_insert` moves every shard
that is not before -1, which are all; the shapes mostly differ then, and the next op raises.

It would be fixed by `normalize_dim`, or by single-dim rules.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x, weight = torch.zeros(1, 4), torch.tensor([[1.0, 2.0]])
whole = x.clone().requires_grad_()
(whole.narrow(-1, 0, 2) * weight).sum().backward()
right = whole.grad

with LocalTensorMode(2):
    sharded = distribute_tensor(x, mesh, [Shard(1)]).requires_grad_()
    product = sharded.narrow(-1, 0, 2) * distribute_tensor(weight, mesh, [Shard(1)])
    product.sum().backward()
    found = sharded.grad.full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
