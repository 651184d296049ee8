"""A call gets the decision of another one, which differs from it in a dtype.

The cache of decisions has keys of the operands and of the arguments that an op's
`RuntimeSchemaInfo` names. For reductions with a dtype it does not name that (nor `out=`, nor
tensors by keyword, nor the dtype of a view): the second of two calls gets the decision of the
first, and the metadata of its output. A view of one dtype then has the shape of a view of another.

It would be fixed by naming these arguments.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

x = torch.arange(8.0).reshape(4, 2)
right = torch.tensor(x.view(torch.int16).shape)

with LocalTensorMode(2):
    placed = distribute_tensor(x, mesh, [Shard(0)])
    placed.view(torch.int32)
    found = torch.tensor(placed.view(torch.int16)._spec.shape)

print("shape on one device:", right)
print("shape on two ranks: ", found)
