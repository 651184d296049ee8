"""torch.compile with aot_eager: results, decisions while tracing, and the number of graphs.

On the fake group: every process would compile the same graphs.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from shardprop.cli.demo_program.llama import FeedForward

from .check import SYMBOLIC_SHAPE, check
from .compare import compare
from .llama import Size, build, parallelize
from .outcome import Results
from .world import gradients, mesh_of, seeded

pytestmark = pytest.mark.slow

SIZE = Size(layers=1)
RANKS = 4


class NormedFeedForward(nn.Module):
    """A norm on the sequence shard, then SwiGLU on the whole sequence, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(SIZE.dim, eps=1e-5)
        self.feed_forward = FeedForward(SIZE)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.feed_forward(self.norm(x))


def normed_feed_forward() -> nn.Module:
    return parallelize_module(
        NormedFeedForward(),
        mesh_of((RANKS,), ("tp",)),
        {
            "norm": SequenceParallel(),
            "feed_forward": PrepareModuleInput(
                input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
            ),
            "feed_forward.w1": ColwiseParallel(),
            "feed_forward.w3": ColwiseParallel(),
            "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
        },
    )


def run(lengths: tuple[int, ...], *, dynamic: bool | None, mark: bool = False) -> Results:
    """Forward and backward of the compiled block on sequences of several lengths."""
    backend = CompileCounterWithBackend("aot_eager")
    block = normed_feed_forward()
    compiled = torch.compile(block, backend=backend, dynamic=dynamic, fullgraph=True)
    results: dict[str, object] = {}
    for length in lengths:
        x = seeded(2, length, SIZE.dim, seed=length).requires_grad_()
        if mark:
            torch._dynamo.mark_dynamic(x, 1)
        y = compiled(x)
        y.square().mean().backward()
        results |= {f"output {length}": y.detach(), f"input gradient {length}": x.grad}
    return results | {"gradients": gradients(block), "graphs": _graphs(backend)}


def _graphs(backend: CompileCounterWithBackend) -> tuple[int, int]:
    """How many graphs were compiled (a recompile is one more), and the ops in them."""
    return backend.frame_count, backend.op_count


def test_static_shapes() -> None:
    report = compare(partial(run, (8,), dynamic=False))
    check([report], decisions=20)


@pytest.mark.parametrize("mark", [False, True], ids=["dynamic=True", "mark_dynamic"])
def test_sequences_of_several_lengths(mark: bool) -> None:
    report = compare(partial(run, (8, 12, 16), dynamic=None if mark else True, mark=mark))
    check(
        [report],
        decisions=1,
        price_fallbacks=[SYMBOLIC_SHAPE],
    )


def run_llama() -> Results:
    backend = CompileCounterWithBackend("aot_eager")
    model = parallelize(build(SIZE), mesh_of((RANKS,), ("tp",)))
    block = model.layers[0]
    compiled = torch.compile(block, backend=backend)
    x = seeded(SIZE.batch, SIZE.seq // RANKS, SIZE.dim).requires_grad_()
    y = compiled(x, model.cos, model.sin)
    y.square().mean().backward()
    return {
        "output": y.detach(),
        "input gradient": x.grad,
        "gradients": gradients(block),
        "graphs": _graphs(backend),
    }


def test_transformer_block() -> None:
    check([compare(run_llama)], decisions=25)
