"""The backward of adaptive pooling takes the height of a single image for its channels.

`interp_pool_1out_2in_strategy` shards dims 0 and 1 of the operands of `max_unpool2d`,
`max_unpool3d` and the backward of `adaptive_avg_pool2d`. Dim 1 are the channels of a batch of
images; an image without a batch dim has its height there, and each rank spreads its gradients over
its own part of it. Where the windows of pooling cross the parts, the gradients are wrong.

It would be fixed by looking at the number of dims, as `pool_backward_strategy` does.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

backward = torch.ops.aten._adaptive_avg_pool2d_backward
grad, image = torch.arange(3.0).reshape(1, 3, 1), torch.ones(1, 4, 1)
right = backward(grad, image)

with LocalTensorMode(2):
    operands = [distribute_tensor(each, mesh, [Shard(1)]) for each in (grad, image)]
    found = backward(*operands).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
