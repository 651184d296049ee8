"""The view family: ops whose output follows the placements of their one input.

`dim_map` and `reshape` say how output dims come from input dims, `placements` what that means for
shards. Both follow torch's decisions; where torch raises, `Declined` is raised, and torch is to be
asked, so that the words are its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ...._torch import DataDependentError, DTensorSpec, OpOverload, Partial, Placement, is_shard
from ....errors import ShardpropError
from ....model.question import NoStrategyError, Question
from ....support.cache import BoundedMap
from ...follow_rule import REPLICATE, Candidate, FollowRule
from . import dim_map as maps
from . import reshape
from .declined import Declined, Endless
from .placements import follow

__all__ = ["RULES", "VIEW_OPS", "Declined", "ViewOp", "follow_view", "forget_dim_maps"]

aten = torch.ops.aten

# Of an op, a shape and the arguments after the tensor.
_dim_maps: BoundedMap[maps.DimMap] = BoundedMap("dim maps of views", 2048)


class ViewOp(NamedTuple):
    """How torch decides a view op.

    Attributes:
        dims: From the global shape and the arguments after the tensor to the dim map.
        strict: The op may not redistribute its input, but raises.
        keywords: The names by which torch takes those arguments as keywords.
        reduced_first: Kinds of Partial that do not pass, whatever torch says.
        keeps_dims: Every dim stays where it is, whatever torch says of strided shards.
    """

    dims: Callable[..., maps.DimMap]
    strict: bool = False
    keywords: tuple[str, ...] = ()
    reduced_first: frozenset[str] = frozenset()
    keeps_dims: bool = False


_SQUEEZE = ViewOp(maps.squeezed, strict=True, keywords=("dim",))
_VIEW = ViewOp(reshape.viewed, strict=True)
_EXPAND = ViewOp(maps.expanded)

VIEW_OPS: dict[OpOverload, ViewOp] = {
    aten._unsafe_view.default: _VIEW,
    aten.expand.default: _EXPAND,
    aten.expand_copy.default: _EXPAND,
    aten.permute.default: ViewOp(maps.permuted, keywords=("dims",)),
    aten.repeat.default: ViewOp(maps.repeated),
    aten.reshape.default: ViewOp(reshape.reshaped, keywords=("shape",)),
    aten.squeeze.default: _SQUEEZE,
    aten.squeeze.dim: _SQUEEZE,
    aten.squeeze.dims: _SQUEEZE,
    aten.squeeze_.default: _SQUEEZE,
    aten.squeeze_.dim: _SQUEEZE,
    aten.squeeze_.dims: _SQUEEZE,
    aten.transpose.int: ViewOp(maps.transposed, keywords=("dim0", "dim1")),
    aten.unsqueeze.default: ViewOp(maps.unsqueezed, keywords=("dim",)),
    aten.view.default: _VIEW,
    # The parts of a product are no products of the parts. torch takes the last dim for one that is
    # cut in two, and looks for the runs of a strided shard in the wrong one.
    aten.view_as_real.default: ViewOp(
        maps.viewed_as_real, reduced_first=frozenset(("product",)), keeps_dims=True
    ),
    aten.view_copy.default: ViewOp(reshape.viewed),
}


def follow_view(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], mesh_sizes: Sequence[int]
) -> tuple[tuple[Placement, ...], tuple[Placement, ...]]:
    """The wanted placements of a view op's input, and the placements of its output.

    Args:
        op: One of `VIEW_OPS`.
        args: Its arguments, with a DTensorSpec in the tensor's place.
        kwargs: Its keyword arguments.
        mesh_sizes: The sizes of the mesh dims.

    Raises:
        Declined: torch raises for this question.
    """
    view = VIEW_OPS[op]
    spec: DTensorSpec = args[0]
    shape = spec.shape
    rest = _positional(view, args, kwargs)
    try:
        dims = _dim_map(view, shape, rest)
        placements = _reduced(spec.placements, view.reduced_first)
        wanted, output = follow(placements, dims, shape, mesh_sizes, view.strict)
    except ZeroDivisionError as error:
        raise Declined("a size of zero") from error
    except DataDependentError as error:
        raise Declined("a size that is known only when the program runs") from error
    return wanted, _on_their_dims(wanted, output) if view.keeps_dims else output


def _on_their_dims(
    wanted: tuple[Placement, ...], output: tuple[Placement, ...]
) -> tuple[Placement, ...]:
    """The output placements, with shards back where they were."""
    return tuple(
        before if is_shard(before) and (not is_shard(after) or after.dim != before.dim) else after  # type: ignore[attr-defined]
        for before, after in zip(wanted, output, strict=True)
    )


def _reduced(placements: tuple[Placement, ...], kinds: frozenset[str]) -> tuple[Placement, ...]:
    if not kinds:
        return placements
    return tuple(
        REPLICATE if isinstance(p, Partial) and p.reduce_op in kinds else p for p in placements
    )


def _positional(view: ViewOp, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments after the tensor, without lists: those have no hash."""
    rest = list(args[1:])
    if kwargs:
        rest += [kwargs[name] for name in view.keywords[len(rest) :] if name in kwargs]
        if len(rest) + 1 != len(args) + len(kwargs):
            raise Declined("a keyword that torch does not take")
    return tuple([tuple(arg) if isinstance(arg, list) else arg for arg in rest])


def _dim_map(view: ViewOp, shape: Sequence[int], rest: tuple[Any, ...]) -> maps.DimMap:
    key = (view.dims, shape, rest)
    try:
        dims = _dim_maps.get(key)
    except TypeError:  # symbolic sizes have no hash, on purpose
        return view.dims(shape, *rest)
    if dims is None:
        dims = view.dims(shape, *rest)
        _dim_maps.put(key, dims)
    return dims


def forget_dim_maps() -> None:
    """Clear the cache of dim maps."""
    _dim_maps.clear()


def _candidate(question: Question) -> Candidate:
    spec: DTensorSpec = question.args[0]
    try:
        wanted, output = follow_view(question.op, question.args, question.kwargs, spec.mesh.shape)
    except Endless as reason:
        raise ShardpropError(
            f"{question.op}: {reason}; torch alone does not return from this view of shape "
            f"{tuple(spec.shape)} to {question.args[1:]}. View the local tensor instead "
            "(DTensor.to_local and DTensor.from_local)."
        ) from None
    except Declined as reason:
        raise NoStrategyError(str(reason)) from None
    # A strided shard that a view makes is a plain shard with gaps, no encoded shard order.
    return Candidate((output,), (wanted,), strided_is_order=False)


RULES = dict.fromkeys(VIEW_OPS, FollowRule(_candidate))
