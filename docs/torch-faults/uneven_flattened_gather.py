"""`full_tensor` over a flattened mesh returns data of other places where shards are uneven.

Two all-gathers of one tensor dim are merged into one on the flattened mesh
(`_optimize_transform_infos`). But 5 rows that two mesh dims of 2 cut one after the other are 2, 1,
1 and 1, and the merged gather puts them together as if they had been cut into 4 at once: 2, 2, 1
and 0. Nothing raises. For reduce-scatters the size is looked at.

It would be fixed by the check that reduce-scatters have.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Four ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
mesh["dp", "tp"]._flatten()

right = torch.arange(10.0).reshape(5, 2)

with LocalTensorMode(4):
    found = distribute_tensor(right, mesh, [Shard(0), Shard(0)]).full_tensor().reconcile()

print("one device:", right)
print("four ranks: ", found)
