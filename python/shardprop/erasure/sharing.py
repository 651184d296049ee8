"""Which values of a program's local graphs share memory, as far as a program can tell."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from .._torch.graph_calls import may_be_a_view
from ..model.graph_values import called

__all__ = [
    "Sharing",
    "keep_results_apart",
    "memories_of_results",
    "memory_of",
    "shares",
    "sharing_of",
]


_CLONE = torch.ops.aten.clone.default


class Sharing(NamedTuple):
    """What a forward keeps of its operands and results, and what a backward hands on.

    Attributes:
        operands: Operands that are kept for the backward, themselves or by a view.
        results: Results that are.
        as_tangent: By gradient the tangent that it is, itself.
        as_gradient: By gradient an earlier one that is the same tensor.
        kept: Gradients that are, or are views of, what the forward has kept.
    """

    operands: Sequence[int]
    results: Sequence[int]
    as_tangent: dict[int, int]
    as_gradient: dict[int, int]
    kept: frozenset[int]


def sharing_of(forward: fx.Graph, backward: fx.Graph, results: int, tangents: int) -> Sharing:
    """How the two graphs of a program share memory.

    Args:
        forward: Returns so many `results`, what is written into operands among them, then what it
            keeps.
        backward: Takes what was kept, then so many `tangents`; returns gradients.
        results: See `forward`.
        tangents: See `backward`.
    """
    returned: Any = forward.output_node().args[0]
    kept = {memory_of(node) for node in returned[results:]}
    operands = forward.find_nodes(op="placeholder")
    taken = backward.find_nodes(op="placeholder")
    first = len(taken) - tangents
    gradients: Any = backward.output_node().args[0]
    as_tangent = {
        at: taken.index(node) - first
        for at, node in enumerate(gradients)
        if node is not None and node in taken[first:]
    }
    as_gradient = {
        at: gradients.index(node)
        for at, node in enumerate(gradients)
        if node is not None and gradients.index(node) < at
    }
    return Sharing(
        [at for at, node in enumerate(operands) if node in kept],
        [at for at, node in enumerate(returned[:results]) if node and memory_of(node) in kept],
        as_tangent,
        as_gradient,
        frozenset(
            at
            for at, node in enumerate(gradients)
            if node is not None and memory_of(node) in taken[:first]
        ),
    )


def memories_of_results(graph: fx.Graph, first: int, last: int) -> list[int]:
    """For each result of a graph, which it returns from `first` on and before `last`, the first one
    that may share its memory: itself, as a rule."""
    returned: Any = graph.output_node().args[0]
    memories = [memory_of(node) for node in returned[first:last]]
    return [memories.index(memory) for memory in memories]


def keep_results_apart(graph: fx.Graph, first: int, before: Sequence[int]) -> None:
    """Have a graph return copies where results share memory that did not `before`: equal calls have
    become one, and who writes into one result would write into the other."""
    now = memories_of_results(graph, first, first + len(before))
    output = graph.output_node()
    returned: list[Any] = [*output.args[0]]  # type: ignore[misc]
    for at, (was, shares_with) in enumerate(zip(before, now, strict=True)):
        if shares_with not in (at, was):
            with graph.inserting_before(output):
                returned[first + at] = called(graph, _CLONE, returned[first + at])
    output.args = (returned,)


def memory_of(node: fx.Node) -> fx.Node:
    """The value whose memory a node's may be: itself, or what it may be a view of."""
    while node.op == "call_function" and node.all_input_nodes and shares(node):
        node = node.all_input_nodes[0]
    return node


def shares(node: fx.Node) -> bool:
    """May what a call makes share the memory of its first operand?"""
    if node.target is operator.getitem:
        (source,) = node.all_input_nodes
        return source.op == "call_function" and may_be_a_view(source)
    return may_be_a_view(node)
