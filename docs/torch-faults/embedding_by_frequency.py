"""With `scale_grad_by_freq=True` an embedding's gradient is too large where indices are sharded.

`embedding_dense_backward_strategy` lists a row in which indices and gradients are sharded alike
and the result is pending, whatever the arguments say. With `scale_grad_by_freq` each rank divides
by how often an index occurs among its own, not among all.

It would be fixed by leaving out that row where the argument is set.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.functional import embedding
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))


def gradient(indices, weight):
    embedding(indices, weight, scale_grad_by_freq=True).sum().backward()
    return weight.grad


indices, weight = torch.tensor([0, 1, 1, 1]), torch.ones(2, 2)
right = gradient(indices, weight.clone().requires_grad_())

with LocalTensorMode(2):
    split = distribute_tensor(indices, mesh, [Shard(0)])
    whole = distribute_tensor(weight, mesh, [Replicate()]).requires_grad_()
    found = gradient(split, whole).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
