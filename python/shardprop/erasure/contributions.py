"""Sums of what several uses of an operand give to its gradient, left to autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ..model.graph_values import value_of

__all__ = ["sums_left_to_autograd"]

_ADD = torch.ops.aten.add.Tensor


def sums_left_to_autograd(graph: fx.Graph, uses: Sequence[int]) -> list[int]:
    """Take the last sums out of a backward: each summand is returned by itself, for autograd adds
    what comes from elsewhere first or last, as it does on DTensors.

    Args:
        graph: Returns the gradients of operands.
        uses: By operand how often autograd adds to its gradient: sums further inside were made for
            what was made of it.

    Returns:
        The operands to whose gradients those belong that are returned after all others.
    """
    output = graph.output_node()
    returned: Any = output.args[0]
    gradients = [*returned]
    again: list[int] = []
    for at, count in enumerate(uses):
        summands = _summands(gradients[at], count)
        gradients[at] = summands[0]
        gradients += summands[1:]
        again += [at] * (len(summands) - 1)
    output.args = (gradients,)
    graph.eliminate_dead_code()
    return again


def _summands(node: Any, count: int) -> list[Any]:
    """So many at most, in the order in which they are added."""
    if count < 2 or not _is_sum(node):
        return [node]
    before, last = node.args
    return [*_summands(before, count - 1), last]


def _is_sum(node: Any) -> bool:
    """Is it a sum that is made for a gradient alone, of two tensors like it?"""
    if not isinstance(node, fx.Node) or node.target is not _ADD or node.kwargs:
        return False
    if len(node.users) > 1 or not all(isinstance(each, fx.Node) for each in node.args):
        return False
    made = value_of(node)
    return all(
        value_of(each).shape == made.shape and value_of(each).dtype == made.dtype
        for each in node.args
    )
