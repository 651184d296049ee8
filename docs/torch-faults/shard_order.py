"""What is in another shard order passes for the default one.

A decision compares the placements of operands with those that it wants
(`propagate_op_sharding_non_cached`, `if input_spec.placements != desired_spec.placements`). Here
both are two shards of the rows, which mesh dim 1 has cut first: the operand stays as it is, and the
output says that mesh dim 0 has. The move was priced, and is not made.

It would be fixed by comparing shard orders, too.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta
from torch.testing._internal.distributed.fake_pg import FakeStore

# Four ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = dist.init_device_mesh("cpu", (2, 2))

x = torch.arange(8.0).reshape(4, 2)
right = x.unsqueeze(1)[:, 0, 0]

with LocalTensorMode(4):
    # Mesh dim 1 cuts the rows in halves, and mesh dim 0 those.
    rows = LocalTensor({0: x[0:1], 1: x[2:3], 2: x[1:2], 3: x[3:4]})
    order = (ShardOrderEntry(tensor_dim=0, mesh_dims=(1, 0)),)
    meta = TensorMeta(x.shape, x.stride(), x.dtype)
    spec = DTensorSpec(mesh, (Shard(0), Shard(0)), meta, shard_order=order)
    given = DTensor(rows, spec, requires_grad=False)
    assert torch.equal(given.full_tensor().reconcile(), x)
    found = given.unsqueeze(1).full_tensor().reconcile()[:, 0, 0]

print("one device:", right)
print("four ranks:", found)
