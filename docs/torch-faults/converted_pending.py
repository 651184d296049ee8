"""`to(dtype)` in inference mode cuts off the fractions of parts before they are added up.

`aten.to.dtype`, which comes apart into `_to_copy` outside of inference mode, is registered among
the linear pointwise ops: each Partial passes, whatever the dtypes are. Parts of a sum that are
converted to integers lose their fractions; parts that add up to zero are true; of a pending maximum
negative numbers become large ones without a sign.

It would be fixed by the rule that `_to_copy` has, which looks at the dtypes.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.tensor import DTensor, Partial
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

part = torch.tensor([1.5, 2.5])
right = (part + part).to(torch.int64)

with torch.inference_mode(), LocalTensorMode(2):
    parts = LocalTensor({0: part, 1: part})
    found = DTensor.from_local(parts, mesh, [Partial()], run_check=False).to(torch.int64)
    found = found.full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
