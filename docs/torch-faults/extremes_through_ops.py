"""`threshold` of a pending maximum replaces what only one rank has below the threshold.

The rules of `threshold` and of the Fourier transforms list a row in which a `Partial("max")` passes
(and one for "min"). `threshold` is not monotone where the number that it puts in is above the
threshold; a Fourier transform adds up, and the transform of a maximum is not the maximum of the
transforms.

It would be fixed by leaving out these rows.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.tensor import DTensor, Partial
from torch.nn.functional import threshold
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

held = [torch.tensor([1.0, 3.0]), torch.tensor([2.0, 0.0])]
right = threshold(torch.maximum(*held), 1.5, 9.0)

with LocalTensorMode(2):
    local = LocalTensor(dict(enumerate(held)))
    found = DTensor.from_local(local, mesh, [Partial("max")], run_check=False)
    found = threshold(found, 1.5, 9.0).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
