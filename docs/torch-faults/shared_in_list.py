"""What the elements of a list share is moved to where the first element wants it.

Of a `_foreach_` op with one tensor for all elements, each element is decided as if that tensor were
moved for it alone (`expanded_foreach_strategy`), and it is moved to where the first element's
strategy wants it (`propagate_op_sharding_non_cached`). The outputs of the others have the
placements that they would have had with the tensor elsewhere: here the second is a product of two
pending sums.

It would be fixed by choosing the strategies of all elements together.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.tensor import DTensor, Partial, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x, part = torch.tensor([3.0, 1.0]), torch.tensor([1.0, 1.0])
half = torch.tensor(2.0)
right = torch.ops.aten._foreach_mul.Tensor([x, part + part], half + half)[1]

with LocalTensorMode(2):
    parts, halves = LocalTensor({0: part, 1: part}), LocalTensor({0: half, 1: half})
    whole = distribute_tensor(x, mesh, [Replicate()])
    pending = DTensor.from_local(parts, mesh, [Partial()], run_check=False)
    scale = DTensor.from_local(halves, mesh, [Partial()], run_check=False)
    found = torch.ops.aten._foreach_mul.Tensor([whole, pending], scale)[1].full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
