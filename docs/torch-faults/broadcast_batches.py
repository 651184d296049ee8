"""A batched solver cuts the right-hand sides, and not the matrices that belong to them.

The strategy of `linalg.solve_triangular` has a row in which the matrix is replicated and the
right-hand side sharded along a batch dim, as where one matrix serves all batches. It does not look
whether there is but one: ranks solve for the matrices of other batches, or raise.

It would be fixed by comparing the sizes of batches.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

matrix = torch.diag_embed(torch.tensor([[1.0, 2.0], [4.0, 8.0]]))
side = torch.ones(2, 2, 1)
right = torch.linalg.solve_triangular(matrix, side, upper=True).sum()

with LocalTensorMode(2):
    whole = distribute_tensor(matrix, mesh, [Replicate()])
    cut = distribute_tensor(side, mesh, [Shard(0)])
    found = torch.linalg.solve_triangular(whole, cut, upper=True).sum().full_tensor().reconcile()

print("sum on one device:", right)
print("sum on two ranks: ", found)
