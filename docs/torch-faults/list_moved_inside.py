"""A layout is taken that moves what is in a list inside of a decomposition, where nothing moves.

Of an op without a rule torch runs the decomposition on candidates of layouts, and drops those on
which a call inside would redistribute an operand (`DecompShardingStrategy`). It compares
`args_spec` of the schema and of the one to redistribute to, which for the latter has no entries
where operands stand in lists: those of `_foreach_` ops are never seen to move.

It would be fixed by comparing operands in lists, too.
"""

import torch
import torch.distributed as dist
from torch._decomp import register_decomposition
from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
from torch.distributed.tensor import DTensor, Partial, Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

# Two ranks in this one process: neither a launcher nor devices are needed.
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = dist.init_device_mesh("cpu", (2,))

library = torch.library.Library("faults", "DEF")
library.define("square_plus(Tensor x, Tensor y) -> Tensor")


def square_plus(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch._foreach_add([x * x], [y])[0]


library.impl("square_plus", square_plus, "CompositeExplicitAutograd")
op = torch.ops.faults.square_plus.default
register_decomposition(op)(square_plus)

x, part = torch.tensor([3.0, 1.0]), torch.tensor([1.0, 1.0])
right = op(x, part + part)

with LocalTensorMode(2):
    whole = distribute_tensor(x, mesh, [Replicate()])
    parts = LocalTensor({0: part, 1: part})
    pending = DTensor.from_local(parts, mesh, [Partial()], run_check=False)
    found = op(whole, pending).full_tensor().reconcile()

print("one device:", right)
print("two ranks: ", found)
