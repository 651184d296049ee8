"""Equal calls on equal operands, made once."""

from __future__ import annotations

import operator
from typing import Any

from torch import fx

from ... import _torch
from ..._torch.graph_calls import is_pure

__all__ = ["equal_calls_once", "equal_collectives_once"]


def equal_calls_once(graph: fx.Graph) -> None:
    """Take the results of the first for those of each later one.

    Only calls of torch's own ops that write nothing and draw no random numbers are; no collectives.
    """
    _once(graph, merges_collectives=False)


def equal_collectives_once(graph: fx.Graph) -> None:
    """Collectives too, and so what follows from them: ``q``, ``k`` and ``v`` of one activation need
    one gather."""
    _once(graph, merges_collectives=True)


def _once(graph: fx.Graph, *, merges_collectives: bool) -> None:
    first: dict[Any, fx.Node] = {}
    for node in graph.nodes:
        if not _is_pure(node, merges_collectives):
            continue
        key = (node.target, _told_apart(node.args), _told_apart(node.kwargs))
        earlier = first.setdefault(key, node)
        if earlier is not node:
            node.replace_all_uses_with(earlier)
            graph.erase_node(node)


def _is_pure(node: fx.Node, merges_collectives: bool) -> bool:
    if node.op != "call_function":
        return False
    if _torch.is_collective(node.target):
        return merges_collectives
    return node.target is operator.getitem or is_pure(node.target)


def _told_apart(item: Any) -> Any:
    """Equal only for the same nodes and for equal constants of one type."""
    if isinstance(item, fx.Node):
        return item
    if isinstance(item, dict):
        return tuple((name, _told_apart(each)) for name, each in item.items())
    if isinstance(item, (list, tuple)):
        return tuple(map(_told_apart, item))
    if isinstance(item, slice):
        return slice, _told_apart((item.start, item.stop, item.step))
    return type(item), repr(item)
