"""Reductions and scans.

A linear reduction (sum of sums, max of maxima) leaves a Partial of its own kind where a reduced dim
is sharded; any other gathers what it reduces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import _core, _torch
from ..._torch import DTensorSpec, NormPartial, Partial, Placement, TensorMeta
from ...model.question import Question
from ..follow_rule import Axes, Axis, FollowRule, argument, normal_dim, unary
from ..pending_partials import passes_conversion
from ..uneven_shards import refuses_partial_avg

__all__ = ["RULES", "reduced_axes"]

aten = torch.ops.aten
prims = torch.ops.prims


def _names_all(dims: Any, ndim: int) -> bool:
    return dims is None or (ndim == 0 and dims in ([0], [-1], []))


def _reduced_dims(dims: Any, ndim: int, empty_is_all: bool = True) -> list[int]:
    """The dims that a ``dim`` argument names; None names all of them, and so does an empty list,
    which torch takes for no dim."""
    if _names_all(dims, ndim) or (empty_is_all and dims == []):
        return list(range(ndim))
    listed = isinstance(dims, list)  # and so is the immutable list of a traced graph
    return [normal_dim(dim, ndim) for dim in (dims if listed else [dims])]


def reduced_axes(ndim: int, dims: Sequence[int], keepdim: bool, reduced: Placement | None) -> Axes:
    """Reduce `dims`; with no placement to reduce to, gather them first."""
    axes: list[int | Axis] = []
    position = 0
    for dim in range(ndim):
        if dim in dims:
            axes.append(Axis.WHOLE if reduced is None else Axis.REDUCED)
        else:
            axes.append(position)
        position += keepdim or dim not in dims
    if reduced is None:
        return Axes(axes, keeps_partial=False)
    return Axes(axes, reduced=reduced)


def _is_linear(
    spec: DTensorSpec, dims: Sequence[int], reduce_op: str | None, dtype: torch.dtype | None
) -> bool:
    """May every rank reduce its shard alone? Not if a Partial of another kind is pending, or one
    that does not pass the conversion to `dtype`, and not for a mean over uneven shards."""
    for placement in spec.placements:
        if not isinstance(placement, Partial):
            continue
        if reduce_op is None or placement.reduce_op != reduce_op:
            return False
        if isinstance(placement, NormPartial):  # its reduce_op is "sum", of powers
            return False
        if dtype is not None and not passes_conversion(reduce_op, _dtype(spec), dtype):
            return False
    return reduce_op != "avg" or not refuses_partial_avg(spec, dims)


def _dtype(spec: DTensorSpec) -> torch.dtype:
    if spec.tensor_meta is None:
        raise _core.Unsupported("operand without tensor metadata")
    return spec.tensor_meta.dtype


def _linear(
    spec: DTensorSpec,
    dims: Sequence[int],
    keepdim: bool,
    passing: str | None,
    result: Placement,
    dtype: torch.dtype | None = None,
) -> Axes:
    """Reduce shards to `result`, if Partials are pending that are all of kind `passing`."""
    linear = _is_linear(spec, dims, passing, dtype)
    return reduced_axes(spec.ndim, dims, keepdim, result if linear else None)


def _reduction(reduce_op: str, *, passes: bool = True, empty_is_all: bool = True) -> FollowRule:
    """``op(self, dim, keepdim)``, linear with Partial(reduce_op), which `passes` unless the op
    takes some elements for others; an empty list of dims means all."""
    result = Partial(reduce_op)
    passing = reduce_op if passes else None

    def axes(question: Question, spec: DTensorSpec) -> Axes:
        dims = _reduced_dims(argument(question, 1, None), spec.ndim, empty_is_all)
        meta = question.meta
        dtype = meta.dtype if isinstance(meta, TensorMeta) else None
        return _linear(spec, dims, bool(argument(question, 2, False)), passing, result, dtype)

    return unary(axes)


def _gathering(
    dims: Callable[[Question, int], Sequence[int]], keepdim: Callable[[Question], bool]
) -> FollowRule:
    """A reduction that needs the whole of what it reduces."""
    return unary(
        lambda question, spec: reduced_axes(
            spec.ndim, dims(question, spec.ndim), keepdim(question), None
        )
    )


def _dims_argument(question: Question, ndim: int) -> list[int]:
    return _reduced_dims(argument(question, 1, None), ndim)


def _some_dims_argument(question: Question, ndim: int) -> list[int]:
    if _names_all(argument(question, 1, None), ndim):
        raise _core.Unsupported("reduction of no dim by name, which torch refuses")
    return _dims_argument(question, ndim)


def _keepdim_argument(question: Question) -> bool:
    return bool(argument(question, 2, False))


def _keepdim_keyword(question: Question) -> bool:
    # torch looks at the keyword only, also where the argument may be positional.
    return bool(question.kwargs.get("keepdim", False))


def _norm_result(order: Any) -> Placement:
    """What a norm leaves of a shard. Nothing pending passes: it takes absolute values."""
    if order in (float("inf"), "inf"):
        return Partial("max")
    if order in (float("-inf"), "-inf"):
        return Partial("min")
    if not isinstance(order, (int, float)):
        raise _core.Unsupported("norm of an order that is no number")
    return Partial("sum") if order == 0 else _torch.norm_partial(order)


def _norm(question: Question, spec: DTensorSpec) -> Axes:
    dims = _reduced_dims(argument(question, 2, None), spec.ndim)
    result = _norm_result(argument(question, 1, 2))
    return _linear(spec, dims, bool(argument(question, 3, False)), None, result)


def _power_sum(question: Question, spec: DTensorSpec) -> Axes:
    dims = _reduced_dims(argument(question, 2, None), spec.ndim)
    return _linear(spec, dims, bool(argument(question, 3, False)), None, Partial("sum"))


def _element_norm(question: Question, spec: DTensorSpec) -> Axes:
    return _linear(spec, range(spec.ndim), False, None, _norm_result(argument(question, 1, 2)))


def _element(passing: str | None, result: Placement) -> FollowRule:
    """Each tensor of a list to a scalar."""
    return unary(lambda _, spec: _linear(spec, range(spec.ndim), False, passing, result))


def _scanned_dim(question: Question, ndim: int) -> list[int]:
    # torch takes the dim as given, of which a negative one gathers nothing.
    return [normal_dim(question.args[1], ndim)]


_LINEAR = {
    "sum": (
        aten.sum.default,
        aten.sum.dim_IntList,
        prims.sum.default,
        # any() is a sum of booleans to torch.
        aten.any.default,
        aten.any.dim,
        aten.any.out,
    ),
    "product": (
        aten.all.default,
        aten.all.dim,
        aten.prod.default,
        aten.prod.dim_int,
        aten.prod.int_out,
        prims.prod.default,
    ),
    "avg": (aten.mean.default, aten.mean.dim, aten.mean.out),
    "max": (aten.max.default, aten.amax.default, aten.amax.out),
    "min": (aten.min.default, aten.amin.default, aten.amin.out),
}

RULES = {
    **{op: _reduction(reduce_op) for reduce_op, ops in _LINEAR.items() for op in ops},
    **dict.fromkeys(
        (aten.argmax.default, aten.argmin.default), _gathering(_dims_argument, _keepdim_argument)
    ),
    **dict.fromkeys(
        (
            aten.std.correction,
            aten.std.correction_out,
            aten.var.correction,
            aten.var.correction_out,
            aten.var_mean.correction,
            aten.var_mean.correction_out,
            prims.var.default,
        ),
        _gathering(_dims_argument, _keepdim_keyword),
    ),
    aten.logsumexp.default: _gathering(_some_dims_argument, _keepdim_keyword),
    **dict.fromkeys(
        (aten.median.default, aten.nanmedian.default),
        _gathering(lambda _, ndim: range(ndim), lambda _: False),
    ),
    aten.any.dims: _reduction("sum", empty_is_all=False),
    # Of a sum of parts, of which one is nan, all are left out.
    aten.nansum.default: _reduction("sum", passes=False),
    # A scan keeps its dim.
    **dict.fromkeys(
        (aten.cumsum.default, aten.cumprod.default, aten.logcumsumexp.default),
        _gathering(_scanned_dim, lambda _: True),
    ),
    **dict.fromkeys((aten.linalg_vector_norm.default, aten.norm.Scalar), unary(_norm)),
    aten.linalg__powsum.default: unary(_power_sum),
    aten._foreach_norm.Scalar: unary(_element_norm),
    aten._foreach_powsum.Scalar: _element(None, Partial("sum")),
    aten._foreach_max.default: _element("max", Partial("max")),
}
