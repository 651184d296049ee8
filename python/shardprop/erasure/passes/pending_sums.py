"""Sums of pending tensors, settled at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ... import _torch
from ...model.graph_values import called, value_of

__all__ = ["pending_sums_at_once"]

_ADD = torch.ops.aten.add.Tensor


def pending_sums_at_once(graph: fx.Graph) -> None:
    """In place of two collectives that sum over ranks, and the sum of their results, have one of
    the sum of what they take: the gradients of ``q``, ``k`` and ``v`` need one reduce-scatter.

    Ranks and summands are added in another order then, so results may differ in rounding.
    """
    for node in graph.find_nodes(op="call_function", target=_ADD):
        if node.kwargs or len(node.args) != 2:
            continue
        pair = [_summed_over_ranks(each) for each in node.args]
        if None in pair or not _are_alike(*pair):
            continue
        first, second = pair
        wait: Any = node.args[0]
        with graph.inserting_before(node):
            total = called(graph, _ADD, first.args[0], second.args[0])
            begun = called(graph, first.target, total, *first.args[1:])
            settled = called(graph, wait.target, begun)
        node.replace_all_uses_with(settled)
        for each in (node, *node.args, first, second):
            if not each.users:
                graph.erase_node(each)


def _summed_over_ranks(node: Any) -> Any:
    """The collective for which a call waits, if nobody else does and it sums; else None."""
    if not isinstance(node, fx.Node) or not _torch.waits_for_collective(node.target):
        return None
    begun: Any = node.args[0]
    is_sum = "sum" in begun.args[1:] and _torch.begins_collective(begun.target)
    return begun if is_sum and len(node.users) == len(begun.users) == 1 else None


def _are_alike(first: fx.Node, second: fx.Node) -> bool:
    taken: list[Any] = [first.args[0], second.args[0]]
    one, other = map(value_of, taken)
    return (
        (first.target, first.args[1:], first.kwargs)
        == (second.target, second.args[1:], second.kwargs)
        and one.shape == other.shape
        and one.dtype == other.dtype
    )
