"""A value that is filled into a pending sum by `fill(x, value, out=y)` is added up over the ranks.

torch 2.15 generates the strategy of `fill.Scalar_out` from that of `fill_` (`_ops/autogen.py`),
which leaves a Partial as it is, as a test of torch's asks of `fill_`. What the overload with `out=`
writes is a result like any other. (torch 2.13 has no strategy for it.)

It would be fixed by rows for the overload that hold no Partial(sum).
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Partial, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

right = torch.ops.aten.fill.Scalar_out(torch.ones(2), 3.0, out=torch.zeros(2))

with LocalTensorMode(2):
    x, out = (distribute_tensor(torch.ones(2), mesh, [Partial()]) for _ in range(2))
    try:
        found = torch.ops.aten.fill.Scalar_out(x, 3.0, out=out).full_tensor().reconcile()
    except (RuntimeError, NotImplementedError) as error:
        found = error

print("one device:", right)
print("two ranks: ", found)
