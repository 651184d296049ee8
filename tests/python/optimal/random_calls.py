"""Calls of ops on operands in random layouts, under policy ``optimal`` on real processes.

In place and with ``out=``, scalars and empty tensors, gradients, pending averages and masked rows
among them. Run more of them with

    python -m tests.python.optimal.random_calls --count 20
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor._redistribute import (
    disable_redistribute_transform_optimization as no_merging,
)

import shardprop

from .local import split
from .random_redistributions import TOPOLOGIES, mesh_of
from .walks import Tensor

SIZES = (2, 2)


@dataclass(frozen=True)
class Op:
    """What is called on float operands of these shapes; its first operand has a gradient."""

    call: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    backward: bool = True


def added_in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.clone().add_(y)


def added_out(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return torch.add(x, y, out=out)


def looked_up(weight: torch.Tensor) -> torch.Tensor:
    rows = torch.tensor([[0, 3, 6], [5, 5, 1]])
    if isinstance(weight, DTensor):
        mesh = weight.device_mesh
        rows = DTensor.from_local(rows, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return F.embedding(rows, weight) * 2.0


OPS = {
    "add": Op(torch.add, ((8, 6), (8, 6))),
    "add_": Op(added_in_place, ((8, 6), (8, 6))),
    "add out": Op(added_out, ((8, 6), (8, 6), (8, 6)), backward=False),
    "add, broadcast": Op(torch.add, ((5, 1, 4), (3, 4))),
    "amax": Op(lambda x: x.amax(1), ((6, 5),)),
    "bmm": Op(torch.bmm, ((4, 3, 6), (4, 6, 2))),
    "cat": Op(lambda x, y: torch.cat([x, y], 0), ((5, 4), (3, 4))),
    "cumsum": Op(lambda x: x.cumsum(0), ((5, 4),)),
    "embedding": Op(looked_up, ((7, 4),)),
    "empty": Op(torch.mm, ((0, 4), (4, 6))),
    "layer_norm": Op(lambda x, w: F.layer_norm(x, (6,), w), ((5, 6), (6,))),
    "linear": Op(F.linear, ((3, 8, 4), (6, 4), (6,))),
    "mean of a product": Op(lambda x, y: (x @ y).mean(), ((8, 6), (6, 4))),
    "mean, then more": Op(lambda x: x.mean(0).exp() * 2.0, ((8, 6),)),
    "mm": Op(torch.mm, ((8, 6), (6, 4))),
    "mm, uneven": Op(torch.mm, ((5, 3), (3, 7))),
    "norm": Op(lambda x: torch.linalg.vector_norm(x) * 2.0, ((8, 6),)),
    "scalar": Op(lambda x, y: x.sum() * y, ((8, 6), ())),
    "softmax": Op(lambda x: torch.softmax(x, 1), ((5, 6),)),
    "transposed view": Op(lambda x: x.t().reshape(2, 3, 8) + 1.0, ((8, 6),)),
    "where": Op(lambda x, y: torch.where(x > 0, x, y), ((7, 6), (7, 6))),
}


def faults(first: int, count: int, names: tuple[str, ...] = tuple(OPS)) -> list[str]:
    """What is wrong on this rank with `count` draws of each op."""
    return [
        f"{name}, {seed}: {fault}"
        for name in names
        for seed in range(first, first + count)
        for fault in _faults(OPS[name], random.Random(f"{name} {seed}"))
    ]


def _faults(op: Op, dice: random.Random) -> Iterator[str]:
    torch.manual_seed(0)
    whole = [torch.randn(shape, dtype=torch.float64) for shape in op.shapes]
    layouts = [_layout(shape, dice) for shape in op.shapes]
    if op.call is added_out:  # its result keeps the layout, and nothing can be made pending
        layouts[2] = tuple(Replicate() if p.is_partial() else p for p in layouts[2])
    expected = _results(op, [tensor.clone() for tensor in whole])
    refused = _outcome(op, whole, layouts, None)
    for topology in TOPOLOGIES:
        outcome = _outcome(op, whole, layouts, topology)
        if isinstance(outcome, type):
            # Layouts that torch cannot compute on may come earlier or later, and another way out
            # may do without them; but what torch can compute, we can.
            if not isinstance(refused, type):
                yield f"{layouts}: {outcome}, and not by torch alone"
            continue
        for made, wanted in zip(outcome, expected, strict=True):
            if made.shape != wanted.shape or not torch.allclose(made, wanted):
                yield f"{layouts}: {made.tolist()}, not {wanted.tolist()}"


def _layout(shape: tuple[int, ...], dice: random.Random) -> tuple[Placement, ...]:
    pending = Partial(dice.choice(["sum", "sum", "avg", "max"]))
    kinds: list[Placement] = [Replicate(), pending, *map(Shard, range(len(shape)))]
    return tuple(dice.choice(kinds) for _ in SIZES)


def _outcome(
    op: Op, whole: list[torch.Tensor], layouts: list[tuple[Placement, ...]], topology: Any
) -> list[torch.Tensor] | type[Exception]:
    """The whole results, or what was raised; by torch alone without a topology."""
    operands: list[torch.Tensor] = [_spread(*pair) for pair in zip(whole, layouts, strict=True)]
    enabled = (
        nullcontext()
        if topology is None
        else shardprop.enabled(policy="optimal", topology=topology)
    )
    try:
        with enabled:
            found = _results(op, operands)
    except Exception as error:
        return type(error)
    with no_merging():  # torch merges gathers of uneven shards into wrong data
        return [tensor.full_tensor() for tensor in found if isinstance(tensor, DTensor)]


def _results(op: Op, operands: list[torch.Tensor]) -> list[torch.Tensor]:
    """The result, and the gradient of the first operand."""
    if not op.backward:
        return [op.call(*operands)]
    operands[0].requires_grad_()
    made = op.call(*operands)
    made.square().sum().backward()
    assert operands[0].grad is not None
    return [made.detach(), operands[0].grad]


def _spread(whole: torch.Tensor, layout: tuple[Placement, ...]) -> DTensor:
    tensor = Tensor(tuple(whole.shape), SIZES)
    local = split(whole, tensor.layout(layout), SIZES, 0)[torch.distributed.get_rank()]
    return DTensor.from_local(
        local,
        mesh_of(SIZES),
        layout,
        run_check=False,
        shape=whole.shape,
        stride=whole.stride(),
    )


def main() -> None:
    from .gloo import Processes

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10, help="draws of each op")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("names", nargs="*", default=list(OPS))
    options = parser.parse_args()
    processes = Processes()
    try:
        answers = processes.call(faults, options.first, options.count, tuple(options.names))
    finally:
        processes.close()
    print(*sorted({fault[:600] for found in answers for fault in found}), sep="\n")
    print(f"{options.count} of each of {len(options.names)} ops")
    raise SystemExit(any(answers))


if __name__ == "__main__":
    main()
