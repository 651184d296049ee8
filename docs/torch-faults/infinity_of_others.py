"""Of an infinity in one of several gradients, only the rank that has it learns.

`found_inf_reduce_handler` (`_amp_foreach_non_finite_check_and_unscale_`, which `GradScaler` calls
with all gradients of a dtype) reduces what the ranks found over the mesh dims on which the first
gradient of the list is sharded. Where that one is replicated, as the weight of a norm is, and a
later one is sharded, nothing is reduced: the rank that has the infinity skips the step and halves
its scale, and the others step. A pending `inv_scale` is taken for the whole one, too.

It would be fixed by reducing over all mesh dims on which some gradient is not replicated.
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

unscale = torch.ops.aten._amp_foreach_non_finite_check_and_unscale_
of_norm, of_weight = torch.ones(2), torch.tensor([[1.0], [torch.inf]])
right = torch.zeros(())
unscale([of_norm.clone(), of_weight.clone()], right, torch.tensor(0.5))
right = right.expand(2)

zeros = torch.zeros(()), torch.zeros(())
with LocalTensorMode(2):
    gradients = [
        distribute_tensor(of_norm, mesh, [Replicate()]),
        distribute_tensor(of_weight, mesh, [Shard(0)]),
    ]
    found_inf = LocalTensor(dict(enumerate(zeros)))
    unscale(gradients, found_inf, torch.tensor(0.5))
    of_ranks = DTensor.from_local(found_inf[None], mesh, [Shard(0)], run_check=False)
    found = of_ranks.full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
