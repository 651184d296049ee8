"""Operands written into where they are: a step of decoding does not copy its whole cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import fx

from .. import _torch
from .._torch.joint_graphs import fake_mode_of
from ..model.graph_values import called
from .sharing import memory_of, shares

__all__ = ["written_in_place"]

aten = torch.ops.aten

# What makes a new value of its first operand, and what writes it there.
_IN_PLACE: Mapping[Any, Any] = {
    aten.copy.default: aten.copy_.default,
    aten.index_copy.default: aten.index_copy_.default,
    aten.index_put.default: aten.index_put_.default,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
}
# What makes one of a new value for a part, and what shows the part.
_PARTS: Mapping[Any, Any] = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
}


def written_in_place(forward: fx.Graph, written: Sequence[int], results: int) -> None:
    """Write parts of an operand where they are, if nobody reads afterwards what was there before.
    The forward returns None for such an operand.

    Args:
        forward: Returns what is written, then results, then what the backward needs.
        written: By place those of its operands into which is written.
        results: How many results it has.
    """
    output = forward.output_node()
    operands = forward.find_nodes(op="placeholder")
    for place, at in enumerate(written):
        returned: Any = output.args[0]
        given = returned[len(written) : len(written) + results]
        values = _values(returned[place], operands[at])
        if not values or any(memory_of(result) is values[-1] for result in given):
            continue
        if all(_is_read_before(old, new) for old, new in pairwise([operands[at], *values])):
            for value in values:
                with forward.inserting_before(value), fake_mode_of(forward):
                    _write_of(value, operands[at]).add_to(forward, operands[at])
                value.replace_all_uses_with(operands[at])
            returned = output.args[0]
            output.args = ([*returned[:place], None, *returned[place + 1 :]],)
            forward.eliminate_dead_code()


def _values(last: Any, operand: fx.Node) -> list[fx.Node]:
    """The new values of an operand, one made of another, in order; none if the last is not made by
    writing parts."""
    values: list[fx.Node] = []
    while last is not operand:
        if last.target not in _IN_PLACE and last.target not in _PARTS:
            return []
        values.append(last)
        last = last.args[0]
    return values[::-1]


def _is_read_before(old: fx.Node, new: fx.Node) -> bool:
    """Is an old value read only until the new one is made, and not by that for what it writes?

    A collective reads until it is waited for.
    """
    return all(memory_of(each) is not old for each in _write_of(new, old).sources) and all(
        reader is new
        or (
            reader.op == "call_function"
            and reader < new
            and not _torch.is_collective(reader.target)
        )
        for reader in _readers(old)
    )


def _readers(node: fx.Node) -> Iterator[fx.Node]:
    for user in node.users:
        yield user
        if user.op == "call_function" and shares(user):
            yield from _readers(user)


class _Write(NamedTuple):
    """How a value is written where another was.

    Attributes:
        parts: What shows the part that is written, from the outside in: op, arguments, keywords.
        op: Writes there.
        args: What it takes beside.
        kwargs: Likewise.
    """

    parts: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...]
    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def sources(self) -> list[fx.Node]:
        """What is read for it."""
        found: list[fx.Node] = []
        fx.node.map_arg((self.args, self.kwargs), found.append)
        return found

    def add_to(self, graph: fx.Graph, into: fx.Node) -> None:
        """Call it on what holds the other value."""
        for op, args, kwargs in self.parts:
            into = called(graph, op, into, *args, **kwargs)
        called(graph, self.op, into, *self.args, **self.kwargs)


def _write_of(value: Any, before: Any) -> _Write:
    """How to write a value; if it is made of what was there before, only what differs."""
    is_made_of_it = bool(value.args) and value.args[0] is before
    if is_made_of_it and value.target in _PARTS:
        inner = _write_of(*_part(value))
        shown = (_PARTS[value.target], value.args[2:], value.kwargs)
        return inner._replace(parts=(shown, *inner.parts))
    if is_made_of_it and value.target in _IN_PLACE:
        return _Write((), _IN_PLACE[value.target], value.args[1:], value.kwargs)
    return _Write((), aten.copy_.default, (value,), {})


def _part(value: Any) -> tuple[Any, Any]:
    """The new value of the part that is written, and what the graph shows as it was before; None if
    the new value is not made of that."""
    made = value.args[1]
    before = made.args[0] if made.args else None
    shown = (_PARTS[value.target], (value.args[0], *value.args[2:]), value.kwargs)
    is_same = isinstance(before, fx.Node) and (before.target, before.args, before.kwargs) == shown
    return made, before if is_same else None
