"""A DTensor that is squeezed in place keeps its shape, while its parts lose a dim.

For an in-place op the dispatcher returns the operand, and takes over the spec that was decided only
where placements differ (`_dispatch_fast_path_python_tail`). `squeeze_` changes them where a later
dim is sharded; of a replicated tensor, or one that is sharded before the dim, they stay, and so
does the old shape. `torch.quantile` squeezes its result in place.

It would be fixed by taking over the spec where its shape differs, too.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.arange(5.0).reshape(1, 5)
right = torch.tensor(x.clone().squeeze_(0).shape)

with LocalTensorMode(2):
    found = torch.tensor(distribute_tensor(x, mesh, [Replicate()]).squeeze_(0).shape)

print("shape on one device:", right)
print("shape on two ranks: ", found)
