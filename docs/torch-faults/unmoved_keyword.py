"""A tensor given by keyword is decided to be replicated, and is not moved.

The dispatcher redistributes positional operands alone (`redistribute_local_args`). Rules of ops
that take tensors by keyword (`linalg.pinv`, fused Adam) ask for them replicated or do not place
them at all: each rank takes the part of a pending tolerance, or of the scale of gradients, for the
whole.

It would be fixed by moving keyword operands, or by refusing those that are not as wanted.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.tensor import DTensor, Partial, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

# Singular values below half of the largest count as zero: half of that on each of two ranks.
x, part = torch.diag(torch.tensor([4.0, 1.5])), torch.tensor(0.25)
right = torch.linalg.pinv(x, rtol=part + part)

with LocalTensorMode(2):
    parts = LocalTensor({0: part, 1: part})
    rtol = DTensor.from_local(parts, mesh, [Partial()], run_check=False)
    matrix = distribute_tensor(x, mesh, [Replicate()])
    found = torch.linalg.pinv(matrix, rtol=rtol).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
