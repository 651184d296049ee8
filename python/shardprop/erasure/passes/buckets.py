"""Small collectives of one kind and group, one after another, made one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from ... import _torch
from ..._torch.graph_calls import is_pure
from ...model.graph_values import called, value_of

__all__ = ["small_collectives_at_once"]

aten = torch.ops.aten

# Bytes on this rank, of a collective's larger side. Below it takes its latency, whatever it moves.
_SMALL = 256 * 1024
_BUCKET = 1024 * 1024


def small_collectives_at_once(graph: fx.Graph) -> None:
    """Where small collectives follow one another that differ in their tensor alone, have one of all
    their elements in a row.

    Ranks may add in another order then, so sums may differ in rounding. A collective joins those
    before it if its operand can be made where the first begins, or if nobody reads the results of
    the others before it begins.
    """
    bucket = _Bucket()
    for node in [*graph.nodes]:
        if not _torch.begins_collective(node.target):
            continue
        if not (bucket.may_take(node) and bucket.joins(node)):
            bucket.empty(graph)
            bucket = _Bucket([node] if _is_small(node) else [])
    bucket.empty(graph)


class _Bucket:
    """Collectives that are to be one.

    Args:
        members: In their order; the one is to begin where the first of them does.
    """

    def __init__(self, members: Sequence[fx.Node] = ()) -> None:
        self._members = [*members]
        self._place = self._members[0] if members else None

    def may_take(self, node: fx.Node) -> bool:
        """Is it small, and of their kind?"""
        if not self._members or not _is_small(node):
            return False
        together = [*self._members, node]
        return sum(map(_bytes, together)) <= _BUCKET and len({*map(_kind, together)}) == 1

    def joins(self, node: fx.Node) -> bool:
        """Take it if that can be; what its operand is made of is brought before the others, or they
        begin where it does."""
        assert self._place is not None
        needed = [*_made_between(node, self._place)]
        if all(each.target is operator.getitem or is_pure(each.target) for each in needed):
            for each in sorted(needed):
                self._place.prepend(each)
        elif all(node < reader for each in self._members for reader in _readers(each)):
            self._place = node
        else:
            return False
        self._members.append(node)
        return True

    def empty(self, graph: fx.Graph) -> None:
        """Make one of them."""
        if len(self._members) < 2:
            return
        assert self._place is not None
        with graph.inserting_before(self._place):
            made = _KINDS[self._members[0].target](graph, self._members)
        for member, result in zip(self._members, made, strict=True):
            for wait in [*member.users]:
                wait.replace_all_uses_with(result)
                graph.erase_node(wait)
            graph.erase_node(member)


def _is_small(node: fx.Node) -> bool:
    """Is it one of those that can be made one, and waited for?"""
    return (
        node.target in _KINDS
        and 0 < _bytes(node) <= _SMALL
        and all(_torch.waits_for_collective(user.target) for user in node.users)
        and value_of(node).is_contiguous()
    )


def _bytes(node: fx.Node) -> int:
    return max(value_of(each).nbytes for each in (node, node.args[0]))


def _kind(node: fx.Node) -> Any:
    return (node.target, node.args[1:], value_of(node).dtype, value_of(node).device)


def _made_between(node: fx.Node, place: fx.Node) -> Iterator[fx.Node]:
    """What a call's operands are made of that stands behind a place."""
    waiting, seen = [*node.all_input_nodes], {node}
    while waiting:
        each = waiting.pop()
        if each not in seen and not each < place:
            seen.add(each)
            waiting += each.all_input_nodes
            yield each


def _readers(begun: fx.Node) -> Iterator[fx.Node]:
    for wait in begun.users:
        yield from wait.users


def _all_reduced(graph: fx.Graph, members: Sequence[fx.Node]) -> list[fx.Node]:
    whole = _waited(graph, members[0], _in_a_row(graph, members, (-1,)))
    return _apart(graph, whole, 0, members)


def _all_gathered(graph: fx.Graph, members: Sequence[fx.Node]) -> list[fx.Node]:
    ranks: Any = members[0].args[1]
    whole = _waited(graph, members[0], _in_a_row(graph, members, (-1,)))
    by_rank = called(graph, aten.view.default, whole, [ranks, -1])
    return _apart(graph, by_rank, 1, members)


def _reduce_scattered(graph: fx.Graph, members: Sequence[fx.Node]) -> list[fx.Node]:
    ranks: Any = members[0].args[2]
    by_rank = _in_a_row(graph, members, (ranks, -1))
    whole = _waited(graph, members[0], called(graph, aten.view.default, by_rank, [-1]))
    return _apart(graph, whole, 0, members)


_KINDS: Mapping[Any, Callable[[fx.Graph, Sequence[fx.Node]], list[fx.Node]]] = {
    _torch.ALL_GATHER_OP: _all_gathered,
    _torch.ALL_REDUCE_OP: _all_reduced,
    _torch.REDUCE_SCATTER_OP: _reduce_scattered,
}


def _in_a_row(graph: fx.Graph, members: Sequence[fx.Node], shape: Sequence[int]) -> fx.Node:
    """What collectives take, each in this shape, joined along its last dim."""
    rows = [called(graph, aten.reshape.default, each.args[0], [*shape]) for each in members]
    return called(graph, aten.cat.default, rows, len(shape) - 1)


def _waited(graph: fx.Graph, like: fx.Node, operand: fx.Node) -> fx.Node:
    begun = called(graph, like.target, operand, *like.args[1:])
    begun.meta = {**like.meta, **begun.meta}  # what it is for
    return called(graph, _torch.WAIT_OP, begun)


def _apart(graph: fx.Graph, whole: fx.Node, dim: int, members: Sequence[fx.Node]) -> list[fx.Node]:
    """The results of collectives, which stand one after another along a dim."""
    rows = value_of(whole).numel() // value_of(whole).shape[dim]
    results: list[fx.Node] = []
    start = 0
    for each in members:
        result = value_of(each)
        size = result.numel() // rows
        part = called(graph, aten.narrow.default, whole, dim, start, size)
        # Each has memory of its own, in a row, as it is without the others.
        own = called(graph, aten.clone.default, part, memory_format=torch.contiguous_format)
        results.append(called(graph, aten.view.default, own, [*result.shape]))
        start += size
    return results
