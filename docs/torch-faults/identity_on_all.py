"""`torch.eye(n, m, out=...)` writes a whole identity on every rank.

`eye_out_strategy` leaves `out` as it is, whatever its placements are, and each rank writes all of
the identity: in a pending sum the identities are added up. Each shard is resized to hold the whole
matrix, which raises later, where it is gathered.

It would be fixed by a rule that refuses such an `out`, or by writing the rank's own piece.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Partial, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

right = torch.eye(2)

with LocalTensorMode(2):
    out = distribute_tensor(torch.zeros(2, 2), mesh, [Partial()])
    try:
        found = torch.eye(2, 2, out=out).full_tensor().reconcile()
    except RuntimeError as error:
        found = error

print("one device:", right)
print("two ranks: ", found)
