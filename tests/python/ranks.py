"""What an op computes when its operands are laid out over the ranks of one mesh dim, by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.distributed.tensor import Partial, Placement, Replicate, Shard

Tensors = list[torch.Tensor]


def pieces(whole: torch.Tensor, placement: Placement, ranks: int) -> Tensors:
    """The local tensors of `whole`."""
    if isinstance(placement, Replicate):
        return [whole.clone() for _ in range(ranks)]
    if isinstance(placement, Shard):
        return [piece.contiguous() for piece in torch.chunk(whole, ranks, placement.dim)]
    assert placement == Partial("sum"), placement
    rest = [torch.rand_like(whole) for _ in range(ranks - 1)]
    return [whole - sum(rest), *rest]


def joined(local: Tensors, placement: Placement) -> Tensors:
    """What the local tensors stand for; for Replicate all of them, which should be the same."""
    if isinstance(placement, Replicate):
        return local
    if isinstance(placement, Shard):
        return [torch.cat(local, placement.dim)]
    assert isinstance(placement, Partial), placement
    stacked = torch.stack(local)
    reduced = {"sum": stacked.sum(0), "avg": stacked.mean(0), "max": stacked.amax(0)}
    return [reduced[placement.reduce_op]]


def holds(
    run: Callable[[Tensors], Tensors],
    operands: Tensors,
    inputs: Sequence[Placement],
    outputs: Sequence[Placement],
    ranks: int,
) -> bool:
    """Does `run` on the local tensors of each rank give its result on the whole ones?"""
    expected = run([operand.clone() for operand in operands])
    local = [pieces(x, p, ranks) for x, p in zip(operands, inputs, strict=True)]
    made = [run([of_operand[rank] for of_operand in local]) for rank in range(ranks)]
    for index, placement in enumerate(outputs):
        for whole in joined([of_rank[index] for of_rank in made], placement):
            if whole.shape != expected[index].shape or not torch.allclose(
                whole, expected[index], rtol=1e-4, atol=1e-5, equal_nan=True
            ):
                return False
    return True
