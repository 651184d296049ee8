"""An op of your own under DTensor: one line of rule, the rule proved, its decision explained.

Run it: ``python examples/custom_op.py``. It needs no other process and no accelerator.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import shardprop


@torch.library.custom_op("mylib::gated_mm", mutates_args=())
def gated_mm(x: Tensor, weight: Tensor, gate: Tensor) -> Tensor:
    """A product of matrices whose columns are gated: [m, k], [k, n], [n] -> [m, n]."""
    return (x @ weight) * gate.sigmoid()


@gated_mm.register_fake
def _(x: Tensor, weight: Tensor, gate: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[1])


# What one mesh dim may do: cut rows (m), columns (n), or the sum (k), which leaves a Partial sum.
# The marks say that the op is linear in either matrix, so that a pending sum passes; the sigmoid
# of a pending sum would be wrong.
shardprop.register_rule(torch.ops.mylib.gated_mm.default, "*m k, *k n, n -> m n")


def samples(op):
    """Calls that `shardprop validate --module custom_op.py --samples custom_op.py` tries."""
    for m, k, n in [(4, 6, 8), (5, 4, 6)]:
        yield (torch.randn(m, k), torch.randn(k, n), torch.randn(n)), {}


def main() -> None:
    """Runs the op on DTensors, and says why they were placed as they were."""
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    x = distribute_tensor(torch.randn(64, 128), mesh, [Shard(0), Replicate()])
    weight = distribute_tensor(torch.randn(128, 256), mesh, [Shard(0), Shard(1)])
    gate = distribute_tensor(torch.randn(256), mesh, [Replicate(), Shard(0)])
    with shardprop.enabled(strict=True):
        y = torch.ops.mylib.gated_mm(x, weight, gate)
        print(shardprop.explain(torch.ops.mylib.gated_mm.default, x, weight, gate))
    if y.placements != (Shard(0), Shard(1)):
        raise SystemExit(f"Expected rows over dp and columns over tp, got {y.placements}.")


if __name__ == "__main__":
    dist.init_process_group("fake", rank=0, world_size=8)
    main()
    dist.destroy_process_group()
