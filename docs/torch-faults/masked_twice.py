"""A table whose rows two mesh dims cut is looked up where it does not lie.

The row of an embedding (and of `gather`) that leaves each rank its rows of the table masks indices
of other ranks. Which rows a rank has is computed for one mesh dim alone (`_MaskPartial`); where the
table is cut by two of them, each masks as if the other did not cut. Where the two masks differ, a
rank raises, and others go on to the collective that adds up what was looked up. Here one process
does what each of four would do, and stops before that collective.

It would be fixed by masks that know of all cuts, or by leaving strategies out in which two mesh
dims mask.
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

# Four ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)

table, indices = torch.arange(16.0).reshape(8, 2), torch.tensor([0, 1])
right = torch.nn.functional.embedding(indices, table)

found = []
for rank, held in enumerate(table.chunk(4)):
    mesh = DeviceMesh("cpu", torch.arange(4).reshape(2, 2), _init_backend=False, _rank=rank)
    placed = DTensor.from_local(held, mesh, [Shard(0), Shard(0)], run_check=False)
    rows = DTensor.from_local(indices, mesh, [Replicate(), Replicate()], run_check=False)
    try:
        found.append(torch.nn.functional.embedding(rows, placed).to_local())
    except Exception as error:
        found.append(error)

print("one device:", right)
for rank, each in enumerate(found):
    print(f"rank {rank}:    ", each)
