"""What only a GPU has: its attention kernels, random numbers by rank, loss scaling, streams.

Run with ``SHARDPROP_TEST_DEVICE=cuda``, as all programs can be; one GPU is enough.
"""

from __future__ import annotations

import warnings
from functools import partial

import pytest
import torch
import torch._inductor.config
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.distributed.tensor import rand as distributed_rand
from torch.nn.attention import SDPBackend, sdpa_kernel

import shardprop

from ..device import DEVICE
from ..narrow import sharded
from .check import check
from .compare import Program, compare
from .outcome import Results
from .pool import Pool
from .world import gradients, mesh_of, parameters, seeded, spread

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DEVICE != "cuda", reason="asks for a GPU"),
]

R, S = Replicate(), Shard


def attention(kernel: str, placements: tuple[Placement, ...]) -> Results:
    """Forward and backward, queries in bfloat16, [batch, heads, sequence, head dim]."""
    mesh = mesh_of((2, 2))
    q, k, v = (
        spread(seeded(4, 8, 16, 16, seed=seed).bfloat16(), mesh, *placements).requires_grad_()
        for seed in range(3)
    )
    with sdpa_kernel(getattr(SDPBackend, kernel)):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    (y.float() + 1).square().sum().backward()
    return {"y": y.detach(), "q": q.grad, "k": k.grad, "v": v.grad}


@pytest.mark.parametrize(
    "placements", [(S(0), S(1)), (R, S(1)), (S(2), S(0)), (S(0), S(3))], ids=str
)
@pytest.mark.parametrize("kernel", ["FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"])
def test_attention(gloo: Pool, kernel: str, placements: tuple[Placement, ...]) -> None:
    check(gloo.run(partial(attention, kernel, placements)), decisions=3)


def random_numbers() -> Results:
    """Ops that draw, in several layouts, and the state that they leave behind."""
    mesh = mesh_of((2, 2))
    results: dict[str, object] = {}
    for number, placements in enumerate([(S(0), S(1)), (R, S(0)), (S(0), S(0)), (R, R)]):
        x = spread(seeded(12, 10, seed=number), mesh, *placements)
        for again in range(2):
            results |= {
                f"{number} dropout {again}": F.dropout(x, 0.4),
                f"{number} rand_like {again}": torch.rand_like(x),
                f"{number} bernoulli {again}": torch.bernoulli(x.sigmoid()),
                f"{number} normal_ {again}": torch.zeros_like(x).normal_(2.0, 3.0),
                f"{number} init {again}": nn.init.trunc_normal_(torch.zeros_like(x)),
                f"{number} rand {again}": distributed_rand(
                    7, 9, device_mesh=mesh, placements=placements
                ),
                f"{number} state {again}": torch.cuda.get_rng_state(),
            }
    return results


def numbers_of_a_generator() -> Results:
    """Drawn from a generator of the program's own, which is left as torch leaves it."""
    mesh = mesh_of((2, 2))
    generator = torch.Generator("cuda").manual_seed(7)
    drawn = [
        spread(seeded(12, 10), mesh, *placements).uniform_(generator=generator)
        for placements in ((S(0), S(1)), (R, S(0)), (R, R))
    ]
    return {"drawn": drawn, "state": generator.get_state()}


def scaled_loss() -> Results:
    """autocast, and a GradScaler that skips one step for an infinity."""
    mesh = mesh_of((4,))
    up, down = nn.Linear(16, 32), nn.Linear(32, 16)
    for linear, dim, of_bias in ((up, 0, S(0)), (down, 1, R)):
        linear.weight = nn.Parameter(spread(linear.weight, mesh, S(dim)))
        linear.bias = nn.Parameter(spread(linear.bias, mesh, of_bias))
    model = nn.Sequential(up, nn.GELU(), nn.Dropout(0.3), down)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    scaler = torch.amp.GradScaler(init_scale=2.0**10)
    results: dict[str, object] = {}
    for step in range(3):
        optimizer.zero_grad()
        x = spread(seeded(8, 16, seed=step), mesh, R)
        with torch.autocast("cuda", torch.float16):
            loss = (model(x) - x).square().sum()
        scaler.scale(loss * (1e36 if step == 1 else 1)).backward()
        scaler.step(optimizer)
        scaler.update()
        results[f"scale {step}"] = scaler.get_scale()
    return results | {"parameters": parameters(model)}


def on_another_stream() -> Results:
    """Asynchronous redistributions of what the default stream makes, used on another stream."""
    mesh = mesh_of((4,))
    stream = torch.cuda.Stream()
    results: dict[str, object] = {}
    x = spread(seeded(512, 64), mesh, S(0))
    for number in range(4):
        x = sharded(x * 1.5)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            whole = x.redistribute(placements=[R], async_op=True)
            results[f"sum {number}"] = sharded(whole * whole).to_local()
        torch.cuda.current_stream().wait_stream(stream)
    return results


@pytest.mark.parametrize("program", [random_numbers, scaled_loss, on_another_stream])
def test_on_real_processes(gloo: Pool, program: Program) -> None:
    check(gloo.run(program), decisions=2)


def test_numbers_of_a_generator(gloo: Pool) -> None:
    for report in gloo.run(numbers_of_a_generator):
        # The generator stands in the decisions, and is another object in each run.
        assert [each for each in report.differences if each.startswith("results")] == []
        assert report.stats.decisions >= 3


def step_of_layer(model: nn.Module, x: DTensor) -> Tensor:
    model.zero_grad()
    y = sharded(model(x)).redistribute(placements=[S(0), R])
    loss: Tensor = y.square().sum()
    loss.backward()
    return loss


def layer() -> tuple[nn.Module, DTensor]:
    mesh = mesh_of((2, 2))
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.LayerNorm(16))
    for name, parameter in list(model.named_parameters()):
        module, _, attribute = name.partition(".")
        over_tp = S(0) if name.startswith("0.") else S(1) if name == "2.weight" else R
        setattr(
            model.get_submodule(module),
            attribute,
            nn.Parameter(spread(parameter, mesh, R, over_tp)),
        )
    return model, spread(seeded(8, 16), mesh, S(0), R)


def test_nothing_waits_for_the_gpu() -> None:
    """Neither a decision nor what is known: the GPU would idle until the next kernel comes."""
    model, x = layer()
    with shardprop.enabled(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the debug mode says that it is new
        try:
            torch.cuda.set_sync_debug_mode("error")
            for _ in range(2):
                step_of_layer(model, x)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def captured() -> Results:
    """A step replayed from a CUDA graph."""
    model, x = layer()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step_of_layer(model, x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = sharded(step_of_layer(model, x)).to_local()
    loss.zero_()
    graph.replay()
    return {"loss": loss}


def test_a_captured_step_is_the_same() -> None:
    check([compare(captured)], decisions=5)


def compiled(backend: str) -> Results:
    model, x = layer()
    # What is compiled once would be found again, and nothing be decided.
    with torch._inductor.config.patch(force_disable_caches=True):
        y = torch.compile(model, backend=backend)(x)
    sharded(y).square().sum().backward()
    return {"y": y.detach(), "gradients": gradients(model)}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(backend: str) -> None:
    check([compare(partial(compiled, backend))], decisions=5)
