"""`1 - x` in torch's C++ code counts the 1 once for each rank.

`at::operator-(Scalar, Tensor)` is `empty_like(x).fill_(1).sub_(x)`. `empty_like` takes a
`Partial("sum")` over, and `fill_` leaves it: each rank writes 1, and the ones are added up.
`cosine_embedding_loss` calls it, and so does the gradient of `lerp`. (`zeros_like` and `full_like`
take no Partial over.)

It would be fixed by a `1 - x` that is `rsub`, as Python's is.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x, y, one = torch.ones(2, 4), torch.eye(2, 4), torch.ones(2)
right = F.cosine_embedding_loss(x, y, one, reduction="none")

with LocalTensorMode(2):
    operands = [distribute_tensor(each, mesh, [Shard(1)]) for each in (x, y)]
    target = distribute_tensor(one, mesh, [Replicate()])
    found = F.cosine_embedding_loss(*operands, target, reduction="none").full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
