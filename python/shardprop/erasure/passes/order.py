"""Collectives as early as their operand is there, waits as late as somebody looks."""

from __future__ import annotations

from torch import fx

from ... import _torch

__all__ = ["collectives_early_waits_late"]


def collectives_early_waits_late(graph: fx.Graph) -> None:
    """Move each collective behind its operand, and each wait before the first use of its result.

    The collectives stay in their order, in which all ranks meet. One begins when that before it
    does, at the earliest behind the calls that stand before the use of the last but one: so no more
    than two results are there before they are needed.
    """
    _waits_late(graph)
    begun: list[fx.Node] = []
    for node in [*graph.nodes]:
        if _torch.begins_collective(node.target):
            behind = [*node.all_input_nodes, *begun[-1:], *_waits_of(begun[-2:-1])]
            latest = max(behind, default=None)
            if latest is not None and latest.op == "call_function" and latest < node:
                latest.append(node)
            begun.append(node)


def _waits_of(collectives: list[fx.Node]) -> list[fx.Node]:
    return [
        user
        for each in collectives
        for user in each.users
        if _torch.waits_for_collective(user.target)
    ]


def _waits_late(graph: fx.Graph) -> None:
    for node in [*reversed(graph.nodes)]:
        if _torch.waits_for_collective(node.target) and node.users:
            min(node.users).prepend(node)
