"""From which input dims a view op makes each output dim.

A dim map is a row of groups. A group takes some input dims, merges them into one, and may cut that
one into pieces again::

    view (2, 3, 8) -> (6, 2, 4)      Group(merged=(0, 1), outputs=(0,))
                                     Group(merged=(2,), pieces=(2, 4), outputs=(1, 2))

An input dim in no group has no output dim that a shard of it could go to (it is squeezed, repeated,
or of size one and gone); an output dim in no group is new, and the same on every rank.

The functions here take the global shape and the arguments of the op, in torch's order and with
torch's defaults. Sizes may be symbolic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...._torch import SymInt
from ...._torch.symbolic_sizes import known, maybe
from .declined import Declined

__all__ = [
    "DimMap",
    "Group",
    "Shape",
    "dim_map",
    "expanded",
    "permuted",
    "repeated",
    "size_list",
    "squeezed",
    "transposed",
    "unsqueezed",
    "viewed_as_real",
]

Shape = Sequence[int]


class Group(NamedTuple):
    """Input dims that become one dim, and what that one becomes.

    Attributes:
        merged: The input dims, outermost first.
        pieces: Sizes that the merged dim is cut into, without those of size one; () if it is not.
        outputs: The output dim of each piece, or the one of the whole. Broadcast dims have none:
            they are of size one, and no shard of them can be followed.
    """

    merged: tuple[int, ...]
    outputs: tuple[int, ...]
    pieces: tuple[int, ...] = ()


class DimMap(NamedTuple):
    """All groups of an op, in the order of their outputs.

    Attributes:
        groups: The groups.
        group_of: The group of an input dim.
        moved: The output dim of an input dim that is neither merged nor cut.
        guards: Does following any placements, sharded or not, add guards?
    """

    groups: tuple[Group, ...]
    group_of: dict[int, Group]
    moved: dict[int, int]
    guards: bool


def dim_map(groups: Sequence[Group]) -> DimMap:
    """A dim map of these groups."""
    return DimMap(
        tuple(groups),
        {dim: group for group in groups for dim in group.merged},
        {
            group.merged[0]: group.outputs[0]
            for group in groups
            if len(group.merged) == 1 and group.outputs and not group.pieces
        },
        any(isinstance(group.pieces[0], SymInt) for group in groups if group.pieces),
    )


def _moved(sources: Sequence[int | None]) -> DimMap:
    """A dim map where each output dim is one input dim, or new."""
    return dim_map(
        [Group((dim,), (output,)) for output, dim in enumerate(sources) if dim is not None]
    )


def size_list(*sizes: int | Shape) -> Shape:
    """Sizes that a call gives one by one or as one list."""
    if not sizes:
        raise Declined("no sizes")
    first = sizes[0]
    if not isinstance(first, int | SymInt):
        if len(sizes) > 1:
            raise Declined("more than one list of sizes")
        return first
    return sizes  # type: ignore[return-value]


def _from_the_front(dim: int, ndim: int) -> int:
    return dim if dim >= 0 else dim + ndim


def permuted(shape: Shape, dims: Sequence[int]) -> DimMap:
    ndim = len(shape)
    order = [_from_the_front(dim, ndim) for dim in dims]
    if sorted(order) != list(range(ndim)):
        raise Declined("not a permutation")
    return _moved(order)


def transposed(shape: Shape, dim0: int, dim1: int) -> DimMap:
    ndim = len(shape)
    first, second = _from_the_front(dim0, ndim), _from_the_front(dim1, ndim)
    if not (0 <= first < ndim and 0 <= second < ndim):
        raise Declined("no such dim")
    order = list(range(ndim))
    order[first], order[second] = second, first
    return _moved(order)


def unsqueezed(shape: Shape, dim: int) -> DimMap:
    ndim = len(shape)
    at = dim if dim >= 0 else dim + ndim + 1
    return _moved([*range(at), None, *range(at, ndim)])


def squeezed(shape: Shape, dim: int | Sequence[int] | None = None) -> DimMap:
    ndim = len(shape)
    if dim is None:
        named = set(range(ndim))
    else:
        dims = (dim,) if isinstance(dim, int) else dim
        named = {_from_the_front(d, ndim) for d in dims}
    # The size is asked of every dim, named or not: torch guards on it.
    return _moved([d for d, size in enumerate(shape) if maybe(size > 1) or d not in named])


def expanded(shape: Shape, *sizes: int | Shape) -> DimMap:
    wanted = size_list(*sizes)
    new = len(wanted) - len(shape)
    if new < 0:
        raise Declined("fewer sizes than dims")
    groups = []
    for output, size in enumerate(wanted):
        dim = output - new
        actual = shape[dim] if dim >= 0 else 1
        if dim < 0:
            if not size >= 0:
                raise Declined("a new dim of negative size")
        elif not (known(actual == 1) or known(size == -1) or known(size == actual)):
            raise Declined("sizes that do not match")
        # Asked of new dims too: torch guards on it.
        stays = known(size == 1) or known(size == -1) or known(size == actual)
        if dim >= 0:
            groups.append(Group((dim,), (output,) if stays else ()))
    return dim_map(groups)


def repeated(shape: Shape, *times: int | Shape) -> DimMap:
    counts = size_list(*times)
    new = len(counts) - len(shape)
    if new < 0:
        raise Declined("fewer repeats than dims")
    once = [known(count == 1) for count in counts]
    return _moved([d - new if d >= new and once[d] else None for d in range(len(counts))])


def viewed_as_real(shape: Shape) -> DimMap:
    if not shape:
        raise Declined("a scalar has no last dim")
    last = len(shape) - 1
    groups = [Group((dim,), (dim,)) for dim in range(last)]
    return dim_map([*groups, Group((last,), (last, last + 1), (shape[-1], 2))])
