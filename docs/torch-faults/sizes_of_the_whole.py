"""An op with out= is told the sizes of the whole tensor, of which each rank has a part.

`select_backward` and the backward of `interpolate` take the sizes of what they return. torch's
dispatcher makes these local (`op_to_shape_and_stride_idx`), and knows the overloads without `out=`
alone. With it a rank raises, since its part has other sizes; but a part of one element is repeated
as often as the whole has some, and that rank goes on, and waits for the others in the next
collective. Here one process does what the two ranks would do, and stops before that. (torch 2.13
has no strategy for this op, but for the backward of `interpolate`.)

It would be fixed by entries for the overloads with `out=` and `grad_input=`.
"""

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

gradient = torch.ones(3)
right = torch.ops.aten.select_backward(gradient, [3, 4], 1, 2)

found = []
for part in (slice(0, 2), slice(2, 3)):
    given, out = (
        DTensor.from_local(whole[part], mesh, [Shard(0)], shape=whole.shape, stride=whole.stride())
        for whole in (gradient, torch.zeros(3, 4))
    )
    try:
        torch.ops.aten.select_backward.out(given, [3, 4], 1, 2, out=out)
        found.append(out.to_local())
    except Exception as error:
        found.append(error)

print("one device:", right)
for rank, each in enumerate(found):
    print(f"rank {rank}:    ", each)
