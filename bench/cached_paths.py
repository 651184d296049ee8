"""Calls whose decision is known, as steps after the first make them: what cached_instructions.py
counts with shardprop on and off."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)

Call = Callable[[], object]

R, P, S = Replicate(), Partial(), Shard
_PARAMETERS = 50


@functools.cache
def _mesh(*shape: int) -> DeviceMesh:
    return init_device_mesh("cpu", shape)


def _placed(mesh: DeviceMesh, placement: Placement, *shape: int) -> DTensor:
    """Local tensors of this shape."""
    return DTensor.from_local(torch.ones(shape), mesh, [placement] * mesh.ndim, run_check=False)


def _moves(mesh: DeviceMesh, name: str) -> dict[str, Call]:
    everywhere = {p: [p] * mesh.ndim for p in (R, S(0), S(1))}
    rows, pending, whole = (_placed(mesh, p, 8, 16) for p in (S(0), P, R))
    uneven = DTensor.from_local(
        torch.ones(1, 16),
        mesh,
        everywhere[S(0)],
        run_check=False,
        shape=torch.Size((7, 16)),
        stride=(16, 1),
    )
    learned: Any = _placed(mesh, S(0), 8, 16).requires_grad_()
    weight = _placed(mesh, S(0), 2, 16)
    return {
        f"S(0) to R, {name}": lambda: rows.redistribute(mesh, everywhere[R]),
        f"S(0) to R, uneven, {name}": lambda: uneven.redistribute(mesh, everywhere[R]),
        f"S(0) to S(1), {name}": lambda: rows.redistribute(mesh, everywhere[S(1)]),
        f"S(0) to R, async, {name}": lambda: _waited(
            rows.redistribute(mesh, everywhere[R], async_op=True)
        ),
        f"P to R, {name}": lambda: pending.redistribute(mesh, everywhere[R]),
        f"P to S(0), {name}": lambda: pending.redistribute(mesh, everywhere[S(0)]),
        f"R to S(0), {name}": lambda: whole.redistribute(mesh, everywhere[S(0)]),
        f"to where it is, {name}": lambda: whole.redistribute(mesh, everywhere[R]),
        f"full_tensor, {name}": rows.full_tensor,
        f"full_tensor of what is whole, {name}": whole.full_tensor,
        f"redistribute with a gradient, {name}": lambda: learned.redistribute(mesh, everywhere[R]),
        f"mm that redistributes, {name}": lambda: torch.mm(rows, weight),
    }


def _waited(moved: DTensor) -> torch.Tensor:
    local: Any = moved.to_local()
    waited: torch.Tensor = local.trigger_wait()
    return waited


def _module(mesh: DeviceMesh, style: ParallelStyle, placement: Placement) -> Call:
    """A layer with the hooks of tensor parallelism, called on local tensors."""
    layer = parallelize_module(nn.Linear(16, 16, bias=False), mesh, style)
    x = torch.ones(8, 16 if placement == S(0) else 16 // mesh.size())
    return lambda: layer(x)


def _step(mesh: DeviceMesh, **way: Any) -> Call:
    parameters = [_placed(mesh, S(0), 4, 4) for _ in range(_PARAMETERS)]
    for parameter in parameters:
        parameter.grad = _placed(mesh, S(0), 4, 4)
    return torch.optim.AdamW(parameters, **way).step


def _compiled(mesh: DeviceMesh) -> Call:
    x = _placed(mesh, S(0), 8, 16)

    @functools.cache
    def compiled() -> Call:
        made = torch.compile(lambda of: torch.relu(of) + 1.0, backend="aot_eager")
        for _ in range(4):
            made(x)
        return lambda: made(x)

    return lambda: compiled()()


def _plain_step() -> Call:
    parameter = torch.ones(4, 4)
    parameter.grad = torch.ones(4, 4)
    return torch.optim.SGD([parameter]).step


def _hits(mesh: DeviceMesh) -> dict[str, Call]:
    x, other, out = (_placed(mesh, S(0), 8, 16) for _ in range(3))
    whole, scales = _placed(mesh, R, 16, 16), _placed(mesh, R, 16)
    rest, gradients = (
        tuple(_placed(mesh, S(0), 4, 4) for _ in range(_PARAMETERS)) for _ in range(2)
    )
    learned: Any = _placed(mesh, S(0), 8, 16).requires_grad_()
    gradient = torch.ones(8, 16)
    indices = DTensor.from_local(torch.zeros(4, dtype=torch.int64), mesh, [R], run_check=False)
    return {
        "relu": lambda: torch.relu(x),
        "add": lambda: x + other,
        "add a number": lambda: x + 1.0,
        "multiply by a number": lambda: x * 2.0,
        "mm": lambda: torch.mm(x, whole),
        "add_": lambda: x.add_(0.0),
        "copy_": lambda: x.copy_(other),
        "zero_": lambda: out.zero_(),
        "out=": lambda: torch.add(x, other, out=out),
        "mm, out=": lambda: torch.mm(x, whole, out=out),
        "view": lambda: x.view(-1, 4, 4),
        "transpose": lambda: x.transpose(0, 1),
        "unsqueeze": lambda: x.unsqueeze(0),
        "slice": lambda: x[:, 2:4],
        "split": lambda: x.split(4, 1),
        "sum": lambda: x.sum(1),
        "mean": lambda: x.mean(1),
        "sum in another dtype": lambda: x.sum(1, dtype=torch.float64),
        "topk": lambda: x.topk(2, 1),
        "to another dtype": lambda: x.to(torch.bfloat16),
        "layer_norm": lambda: F.layer_norm(x, (16,), scales, scales),
        "softmax": lambda: torch.softmax(x, 1),
        "dropout": lambda: F.dropout(x, 0.5),
        "embedding": lambda: F.embedding(indices, whole),
        "detach": x.detach,
        "to_local": x.to_local,
        "from_local": lambda: _placed(mesh, S(0), 8, 16),
        "to_local and its gradient": lambda: learned.to_local().backward(gradient),
        "forward and backward": lambda: torch.relu(learned).sum().backward(),
        "foreach_add_": lambda: torch._foreach_add_(rest, gradients),
        "foreach_norm": lambda: torch._foreach_norm(rest),
        "fused AdamW": _step(mesh, fused=True),
        "AdamW, foreach": _step(mesh, foreach=True),
        "AdamW, one by one": _step(mesh, foreach=False),
        "SGD on a plain tensor": _plain_step(),
        "column-wise layer": _module(mesh, ColwiseParallel(input_layouts=S(0)), S(0)),
        "row-wise layer": _module(mesh, RowwiseParallel(output_layouts=S(0)), S(1)),
        "compiled": _compiled(mesh),
        "equal": lambda: torch.equal(x, other),
    }


def paths() -> Mapping[str, Call]:
    """The calls by name, on meshes of 8 ranks."""
    return {
        **_hits(_mesh(8)),
        **_moves(_mesh(8), "one mesh dim"),
        **_moves(_mesh(4, 2), "two mesh dims"),
    }
