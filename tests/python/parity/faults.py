"""Where torch's own decision gives wrong values, and ours differs from it.

A predicate is as strict as the fault: the op, the arguments and the placements of the operands that
make torch wrong. `tests/python/rules/test_sound.py` shows for each that torch is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.distributed.tensor import Partial, Shard
from torch.distributed.tensor.placement_types import Placement, _StridedShard

from .case import Case
from .layouts import Operand
from .outcome import Outcome

Applies = Callable[[Case, Outcome, Outcome], bool]

aten = torch.ops.aten


def _partials(case: Case) -> Iterator[tuple[Operand, Partial]]:
    for operand in case.operands():
        for placement in operand.layout.placements:
            if isinstance(placement, Partial):
                yield operand, placement


def _cuts(operand: Operand, dim: int) -> list[Placement]:
    """The shards of a tensor dim."""
    return [
        p
        for p in operand.layout.placements
        if isinstance(p, (Shard, _StridedShard)) and p.dim == dim
    ]


def _first(case: Case) -> Operand:
    return next(case.operands())


def _counted_from_the_end(case: Case, position: int) -> int | None:
    """The dim at a position of the arguments, if it is negative."""
    dim = case.args[position]
    return dim if isinstance(dim, int) and dim < 0 else None


SCANS = (aten.cumsum.default, aten.cumprod.default, aten.logcumsumexp.default)


def scan_from_the_end(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    dim = _counted_from_the_end(case, 1)
    operand = _first(case)
    return dim is not None and bool(_cuts(operand, dim + operand.sketch.ndim))


BACKWARD = (aten.select_backward.default, aten.slice_backward.default)


def backward_from_the_end(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    dim = _counted_from_the_end(case, 2)
    if dim is None:
        return False
    operand = _first(case)
    ndim = operand.sketch.ndim
    if case.op is aten.slice_backward.default:
        return bool(_cuts(operand, dim + ndim))
    return any(_cuts(operand, before) for before in range(dim + ndim + 1))


POWER_SUMS = (aten.linalg__powsum.default, aten._foreach_powsum.Scalar)


def powers_of_pending(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    return any(p.reduce_op == "sum" for _, p in _partials(case))


REDUCTIONS = (
    aten.sum.default,
    aten.sum.dim_IntList,
    aten.any.default,
    aten.any.dim,
    aten.any.dims,
    aten.any.out,
    aten.prod.default,
    aten.prod.dim_int,
    aten.prod.int_out,
    aten.mean.default,
    aten.mean.dim,
    aten.mean.out,
    torch.ops.prims.sum.default,
    torch.ops.prims.prod.default,
)


def _loses_pending(reduce_op: str, source: torch.dtype, to: torch.dtype) -> bool:
    if source == to:
        return False
    if torch.bool in (source, to):
        return reduce_op == "sum"
    if source.is_complex and not to.is_complex:
        return reduce_op == "product"
    return source.is_floating_point and not (to.is_floating_point or to.is_complex)


def _output_dtype(outcome: Outcome) -> torch.dtype | None:
    output = outcome.output
    meta = output[-1] if isinstance(output, tuple) and output[:1] == ("spec",) else None
    if not isinstance(meta, tuple) or meta[:1] != ("meta",):
        return None
    found = getattr(torch, str(meta[-1]).removeprefix("torch."), None)
    return found if isinstance(found, torch.dtype) else None


def conversion_of_pending(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    to = _output_dtype(theirs)
    return to is not None and any(
        _loses_pending(p.reduce_op, operand.sketch.dtype, to) for operand, p in _partials(case)
    )


def nansum_of_pending(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    return any(p.reduce_op == "sum" for _, p in _partials(case))


WRITES = (aten.fill_.Scalar, aten.eye.m_out)


def _is_multiplied(operand: Operand, partial: Partial) -> bool:
    if operand.sketch.dtype is torch.bool:
        return partial.reduce_op == "bxor"
    return partial.reduce_op in ("sum", "product", "bxor")


def all_ranks_write(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    if theirs.error is not None or ours.error is None:
        return False
    if ours.error[0] != "RefusedPlacementError":
        return False
    if case.op is aten.fill_.Scalar:
        return any(_is_multiplied(*item) for item in _partials(case))
    sums = any(p.reduce_op == "sum" for _, p in _partials(case))
    out = _first(case)
    return sums or any(_cuts(out, dim) for dim in range(out.sketch.ndim))


FACTORIES = (aten.new_full.default, aten.new_ones.default)


def factory_of_pending(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    operand = _first(case)
    is_sharded = any(_cuts(operand, dim) for dim in range(operand.sketch.ndim))
    return is_sharded and any(_is_multiplied(*item) for item in _partials(case))


BITS = (aten.view.dtype,)


def bits_of_another_kind(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    operand, to = _first(case), case.args[1]
    source = operand.sketch.dtype
    if source == to or not isinstance(to, torch.dtype):
        return False
    bitwise = ("band", "bor", "bxor")
    pair = {source, to}
    components = any(d.is_complex and pair == {d, d.to_real()} for d in pair)
    exact = not any(d.is_floating_point or d.is_complex for d in (source, to))
    for _, p in _partials(case):
        added = components and p.reduce_op in ("sum", "avg")
        if not added and not (exact and p.reduce_op in bitwise):
            return True
    return source.itemsize != to.itemsize and bool(_cuts(operand, operand.sketch.ndim - 1))


COMPLEX = (aten.view_as_real.default,)


def complex_as_real(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    operand = _first(case)
    last = _cuts(operand, operand.sketch.ndim - 1)
    return any(isinstance(p, _StridedShard) for p in last) or any(
        p.reduce_op == "product" for _, p in _partials(case)
    )


AVERAGES = (
    aten.avg_pool1d.default,
    aten.avg_pool2d.default,
    aten.avg_pool3d.default,
    aten.adaptive_avg_pool1d.default,
    aten._adaptive_avg_pool2d.default,
    aten._adaptive_avg_pool3d.default,
)


def average_of_integers(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    dtype = _first(case).sketch.dtype
    is_exact = not (dtype.is_floating_point or dtype.is_complex)
    return is_exact and any(p.reduce_op in ("sum", "avg") for _, p in _partials(case))


LOSSES = (aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
_MEAN, _DEFAULT_IGNORED = 1, -100


def weighted_mean(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    scores, _, weight, reduction, ignored = case.args
    if reduction != _MEAN or (weight is None and ignored == _DEFAULT_IGNORED):
        return False
    if not isinstance(scores, Operand):
        return False
    channel = 1 if scores.sketch.ndim >= 2 else 0
    return any(_cuts(scores, dim) for dim in range(scores.sketch.ndim) if dim != channel)


INDEXED = (aten.gather.default, aten.scatter_add.default)


def indexed_by_another_size(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    """Is torch's output sharded on a dim whose size is not that of all other operands?"""
    dim, output = case.args[1], theirs.output
    if not isinstance(dim, int) or not isinstance(output, tuple) or output[:1] != ("spec",):
        return False
    shapes = [operand.sketch.shape for operand in case.operands()]
    ndim = len(shapes[0])
    differing = [
        d
        for d in range(ndim)
        if d != dim % ndim and len({shape[d] for shape in shapes if len(shape) == ndim}) > 1
    ]
    return any(str(p).startswith((f"S({d})", f"SS({d},")) for p in output[2] for d in differing)


JOINING = (aten.cat.default, aten.stack.default)


def joined_bools(case: Case, theirs: Outcome, ours: Outcome) -> bool:
    kinds = {operand.sketch.dtype for operand in case.operands()}
    return len(kinds) > 1 and any(
        operand.sketch.dtype is torch.bool and p.reduce_op == "sum"
        for operand, p in _partials(case)
    )
