"""The mean of a weighted cross entropy averages the means of the ranks.

`nll_loss_forward_strategy` gives the output a `Partial("avg")` where the reduction is a mean. Each
rank divides by the weights of its own targets, or by the number of those that are not ignored:
where these differ from rank to rank, the mean of the means is another number.

It would be fixed by a rule that gathers, or that sums losses and weights apart.
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

x, target, weight = torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]), torch.tensor([1.0, 3.0])
x[0, 1] = 2.0
right = F.cross_entropy(x, target, weight)

with LocalTensorMode(2):
    batch = [distribute_tensor(each, mesh, [Shard(0)]) for each in (x, target)]
    loss = F.cross_entropy(*batch, distribute_tensor(weight, mesh, [Replicate()]))
    found = loss.full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
