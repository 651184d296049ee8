"""Ops that torch refuses though an answer is provably right. `Decomposer.beyond_torch` switches it.

torch refuses an op if its decomposition cannot be followed, and two reasons are no fault of the op:

- A factory is called inside (``arange``, ``scalar_tensor``): no argument is a DTensor, so torch has
  no decision. But a factory gives the same tensor on every rank that calls it with the same
  arguments, so its result is Replicate. Random factories do not, and stay refused.
- torch follows decompositions from inside a DTensor call, where composite ops no longer come apart
  by themselves and may be taken for a Python decomposition into ``prims`` that has no rules.
  Followed from outside of the call, they come apart into ops with rules.

The backward of hardswish and logsigmoid fail for both reasons at once.

What finally runs on a rank is the op itself on local tensors, not the decomposition with global
sizes. So a row is taken only if the op does there what DTensor would do: `runs_alike` traces the
decomposition for the local shapes that the row gives a rank, and compares call by call. Where a
factory's argument (or any other number) depends on a size that the row shards, the two differ and
the row is dropped. torch does not check this where it does decide: it lets ``mse_loss_backward``
divide by the number of local elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..._torch import OpOverload, Partial, Placement, Shard, StridedShard, TensorMeta
from ...model.op_traits import traits_of
from .by_rows import DimLayout
from .program import Call, Declined, Program

__all__ = ["is_factory", "is_random", "runs_alike"]

_FACTORIES = {
    torch.ops.aten.arange.default,
    torch.ops.aten.arange.start,
    torch.ops.aten.arange.start_step,
    torch.ops.aten.eye.default,
    torch.ops.aten.eye.m,
    torch.ops.aten.full.default,
    torch.ops.aten.linspace.default,
    torch.ops.aten.logspace.default,
    torch.ops.aten.ones.default,
    torch.ops.aten.scalar_tensor.default,
    torch.ops.aten.tril_indices.default,
    torch.ops.aten.triu_indices.default,
    torch.ops.aten.zeros.default,
}


def is_factory(op: OpOverload, args: Sequence[Any]) -> bool:
    """Does the call give the same tensor wherever it runs?

    Random ones do not, and ``empty`` does not either, unless there is nothing in it.
    """
    if op is torch.ops.aten.empty.memory_format:
        return bool(args) and 0 in args[0]
    return op in _FACTORIES


def is_random(program: Program) -> bool:
    """Does it draw random numbers? Then it may differ by rank, whatever it starts from."""
    return any(torch.Tag.nondeterministic_seeded in call.op.tags for call in program.calls)


def runs_alike(
    program: Program,
    layouts: Sequence[DimLayout | None],
    retrace: Callable[[Sequence[torch.Size]], Program],
    rewritten: bool,
) -> bool:
    """Does the op on local tensors do what DTensor would do for the decomposition?

    Args:
        program: The decomposition for the global shapes.
        layouts: Per value of the program its layout on one mesh dim.
        retrace: The decomposition for contiguous operands of other shapes.
        rewritten: DTensor rewrites the op's own arguments where something is sharded, so that the
            retrace would not be what runs.
    """
    placements = [layout.placement for layout in layouts if layout is not None]
    if len(placements) != len(layouts):
        return False
    if any(
        isinstance(p, Shard | StridedShard) and p.dim >= len(meta.shape)
        for meta, p in zip(program.metas, placements, strict=True)
    ):
        return False  # a dim of another operand, which was tried on all of them
    sizes = {
        meta.shape[p.dim]
        for meta, p in zip(program.metas[: program.operands], placements, strict=False)
        if isinstance(p, Shard | StridedShard)
    }
    if max(sizes, default=0) <= 1:
        return True  # nothing is cut
    if rewritten or any(isinstance(p, Partial) and p.reduce_op == "avg" for p in placements):
        return False  # an average over ranks is that over elements only if all ranks hold as many
    for parts, rank in _pieces(sizes):
        local = [
            _local(meta, p, parts, rank) for meta, p in zip(program.metas, placements, strict=True)
        ]
        try:
            there = retrace(local[: program.operands])
        except Declined:
            return False
        if not _same(program, there, local):
            return False
    return True


def _pieces(sizes: set[int]) -> set[tuple[int, int]]:
    """Numbers of parts to cut the sizes into, and the rank to look at.

    Halves, and pieces as small as they get: a number that follows the size differs in one of them.
    And, where there is one, a cut whose last piece is smaller than the first.
    """
    largest = max(sizes)
    pieces = {(2, 0), (largest, 0)}
    for parts in range(2, largest):
        if any(size % parts and -(-size // parts) * (parts - 1) < size for size in sizes):
            return pieces | {(parts, 0), (parts, parts - 1)}
    return pieces


def _local(meta: TensorMeta, placement: Placement, parts: int, rank: int) -> torch.Size:
    """The shape that one of `parts` ranks holds."""
    if not isinstance(placement, Shard | StridedShard):
        return meta.shape
    shape = list(meta.shape)
    size = shape[placement.dim]
    chunk = -(-size // parts)
    shape[placement.dim] = max(0, min(chunk, size - rank * chunk))
    return torch.Size(shape)


def _same(program: Program, there: Program, local: Sequence[torch.Size]) -> bool:
    if len(program.calls) != len(there.calls) or program.results != there.results:
        return False
    if not all(map(_same_call, program.calls, there.calls)):
        return False
    return all(
        meta.shape == shape and meta.dtype == here.dtype
        for meta, shape, here in zip(there.metas, local, program.metas, strict=True)
    )


def _same_call(here: Call, there: Call) -> bool:
    if here.op is not there.op or here.outputs != there.outputs:
        return False
    # Sizes that DTensor itself makes local; that they come out right shows in the outputs' shapes.
    local = set(traits_of(here.op).rewrites.positions)
    if len(here.args) != len(there.args):
        return False
    pairs = [
        pair for i, pair in enumerate(zip(here.args, there.args, strict=True)) if i not in local
    ]
    return all(_equal(a, b) for a, b in [*pairs, (here.kwargs, there.kwargs)])


def _equal(here: Any, there: Any) -> bool:
    return type(here) is type(there) and repr(here) == repr(there)
