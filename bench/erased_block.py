"""One tensor-parallel transformer block: by hand, on DTensors, compiled, erased, and planned.

    python -m bench.erased_block [--ranks 8]
    torchrun --nproc-per-node 4 -m bench.erased_block

Microseconds of processor time of the main thread, the least of 300 calls of each, by turns; under
torchrun of wall time, the median, as the slowest rank has it. Alone it runs on torch's fake process
group: what is timed is the work around the collectives. By hand means local tensors, functional
collectives and two autograd functions, the sequence sharded between the linear layers. The plan is
the best one for parameters, input and output that lie as they do by hand.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import shardprop
from shardprop import graph
from shardprop.erasure import PASSES, ROUNDING_PASSES

BATCH, LENGTH, WIDTH, HIDDEN, HEAD = 2, 16, 64, 128, 8
CALLS, TURNS = 60, 5

_collective = torch.ops._c10d_functional


class Block(nn.Module):
    """As DTensor has it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def gathered(self, x: Tensor) -> Tensor:
        """What the layers after a norm take."""
        return x

    def scattered(self, x: Tensor) -> Tensor:
        """What the residual takes."""
        return x

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.gathered(self.norm1(x))
        q, k, v = (
            each(hidden).view(BATCH, LENGTH, -1, HEAD).transpose(1, 2)
            for each in (self.q, self.k, self.v)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2), -1)
        made = (weights @ v).transpose(1, 2).contiguous().view(BATCH, LENGTH, -1)
        x = x + self.scattered(self.o(made))
        hidden = self.gathered(self.norm2(x))
        return x + self.scattered(self.down(F.relu(self.up(hidden))))


def on_dtensors(mesh: DeviceMesh) -> Block:
    """Under torch's tensor-parallel styles."""
    block = Block()
    by_column = ColwiseParallel(input_layouts=Shard(1), use_local_output=False)
    by_row = RowwiseParallel(output_layouts=Shard(1), use_local_output=False)
    plan = {
        **dict.fromkeys(("norm1", "norm2"), SequenceParallel()),
        **dict.fromkeys(("q", "k", "v", "up"), by_column),
        **dict.fromkeys(("o", "down"), by_row),
    }
    parallelize_module(block, mesh, plan)
    return block


class ByHand(Block):
    """On what a rank holds of the parameters of a block on DTensors."""

    def __init__(self, of: Block, mesh: DeviceMesh) -> None:
        super().__init__()
        ranks, group = mesh.size(), mesh.get_group().group_name
        for name, parameter in of.named_parameters():
            layer, _, kind = name.partition(".")
            assert isinstance(parameter, DTensor)
            local = nn.Parameter(parameter.to_local().detach().clone())
            self.get_submodule(layer).register_parameter(kind, local)

        def gather(x: Tensor) -> Tensor:
            rows = x.transpose(0, 1).contiguous()
            made = _collective.all_gather_into_tensor.default(rows, ranks, group)
            whole: Tensor = _collective.wait_tensor.default(made)
            return whole.transpose(0, 1)

        def scatter(x: Tensor) -> Tensor:
            rows = x.transpose(0, 1).contiguous()
            made = _collective.reduce_scatter_tensor.default(rows, "sum", ranks, group)
            piece: Tensor = _collective.wait_tensor.default(made)
            return piece.transpose(0, 1)

        self.gathered = _with_backward(gather, scatter)  # type: ignore[assignment]
        self.scattered = _with_backward(scatter, gather)  # type: ignore[assignment]


def _with_backward(
    ahead: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return ahead(x)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return back(gradient)

    apply: Callable[[Tensor], Tensor] = Both.apply
    return apply


def main() -> None:
    """Time, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.erased_block")
    parser.add_argument("--ranks", type=int, default=8, help="of the fake group")
    ranks = parser.parse_args().ranks
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    is_real = "RANK" in os.environ
    if is_real:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("fake", rank=0, world_size=ranks)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    runs = programs(mesh)
    gc.disable()
    found = timed(runs, time.perf_counter if is_real else time.thread_time)
    rows = {name: pick(times, is_real) for name, times in found.items()}
    if dist.get_rank() == 0:
        by_hand = rows["by hand"]
        print(f"{'microseconds':32}{'forward':>10}{'ratio':>8}{'and back':>10}{'ratio':>8}")
        for name, (ahead, back) in rows.items():
            ratios = ahead / by_hand[0], back / by_hand[1]
            print(f"{name:32}{ahead:10,.0f}{ratios[0]:8.2f}{back:10,.0f}{ratios[1]:8.2f}")
    dist.destroy_process_group()


def programs(mesh: DeviceMesh) -> dict[str, tuple[Any, Tensor, bool]]:
    """By name a program, what it is called with, and whether shardprop is on."""
    torch.manual_seed(0)
    alone = on_dtensors(mesh)
    local = torch.randn(BATCH, LENGTH // mesh.size(), WIDTH)
    x = DTensor.from_local(local, mesh, [Shard(1)], run_check=False)
    compiled, erased, rounding = (on_dtensors(mesh) for _ in range(3))
    for each in (compiled, erased, rounding):
        each.load_state_dict(alone.state_dict())
    shardprop.erase(erased, fullgraph=True)
    shardprop.erase(rounding, fullgraph=True, passes=[*PASSES, *ROUNDING_PASSES])
    planned = _planned(mesh, alone)
    return {
        "by hand": (ByHand(alone, mesh), local, False),
        "DTensor": (alone, x, False),
        "DTensor, shardprop.enable()": (alone, x, True),
        "compiled by aot_eager": (torch.compile(compiled, backend="aot_eager"), x, True),
        "erased": (erased, x, True),
        "erased, rounding otherwise": (rounding, x, True),
        "planned": (planned, x, True),
    }


def _planned(mesh: DeviceMesh, alone: Block) -> Block:
    """With the parameters of a block on DTensors, where these have them."""
    block = Block()
    block.load_state_dict(
        {name: p.full_tensor() for name, p in alone.state_dict().items() if isinstance(p, DTensor)}
    )
    captured = graph.capture(
        block,
        (torch.empty(BATCH, LENGTH, WIDTH),),
        mesh,
        topology="h100-nvlink",
        parameters={
            name: p.placements for name, p in alone.named_parameters() if isinstance(p, DTensor)
        },
        inputs=[[Shard(1)]],
        outputs=[[Shard(1)]],
    )
    captured.solve().compile(block)
    return block


def timed(
    runs: dict[str, tuple[Any, Tensor, bool]], clock: Callable[[], float]
) -> dict[str, tuple[list[float], list[float]]]:
    """Microseconds of each call: forward alone, and forward with backward."""
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in runs}
    for _ in range(TURNS):
        for name, (program, x, is_on) in runs.items():
            (shardprop.enable if is_on else shardprop.disable)()
            for step, times in zip((forward, forward_and_back), found[name], strict=True):
                for call in range(CALLS + 4):
                    start = clock()
                    step(program, x)
                    if call >= 4:
                        times.append((clock() - start) * 1e6)
    return found


def forward(program: Any, x: Tensor) -> None:
    """A call without gradients."""
    with torch.no_grad():
        program(x)


def forward_and_back(program: Any, x: Tensor) -> None:
    """A training step without an optimizer."""
    made = program(x)
    (made.to_local() if isinstance(made, DTensor) else made).sum().backward()
    for parameter in program.parameters():
        parameter.grad = None


def pick(times: tuple[list[float], list[float]], is_real: bool) -> tuple[float, float]:
    """The least; of real processes the median of the slowest."""
    if not is_real:
        return min(times[0]), min(times[1])
    medians = torch.tensor([statistics.median(each) for each in times])
    dist.all_reduce(medians, dist.ReduceOp.MAX)
    ahead, back = medians.tolist()
    return ahead, back


if __name__ == "__main__":
    main()
