"""What local graphs hold at once, in bytes, from the shapes of their values."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from .. import _torch
from .generated import dead_after
from .pieces import LocalGraphs
from .sharing import memory_of

__all__ = ["Footprint", "footprint_of"]

# The node whose call allocates, and which of its results it is.
_Memory = tuple[fx.Node, int]


class Footprint(NamedTuple):
    """What one rank holds while a program runs, beside its operands and what it reads of itself (a
    plain tensor that is an attribute), in bytes of tensors: without what ops allocate inside, and
    what an allocator rounds up.

    Attributes:
        kept: What the forward leaves for the backward, beside operands and results.
        forward: The most during the forward.
        backward: The most during the backward, results of the forward and gradients that come in
            included, which are there to its end: what was kept goes at its last use, gradients that
            are made stay. 0 where there is none.
        fullest: The call at which most is held, in the forward or the backward; None where nothing
            is called.
    """

    kept: int
    forward: int
    backward: int
    fullest: fx.Node | None


def footprint_of(graphs: LocalGraphs) -> Footprint:
    """That of the graphs of a program, whose functions let go of values at their last use."""
    forward, backward, results, written, absent = graphs
    operands = _all_memories(forward.find_nodes(op="placeholder"))
    most, fullest = _most_at_once(forward, operands, {})
    if backward is None:
        return Footprint(0, most, 0, fullest)
    returned: Any = forward.output_node().args[0]
    given = _all_memories(returned[written : written + results])
    theirs = operands | given
    kept = returned[written + results :]
    taken = backward.find_nodes(op="placeholder")
    same = {
        memory: forward_memory
        for place, node in zip(taken, kept, strict=False)
        for memory, forward_memory in zip(_memories(place), _memories(node), strict=True)
    }
    coming = taken[len(kept) :]
    there = _all_memories([each for at, each in enumerate(coming) if at not in absent])
    made, at = _most_at_once(backward, theirs | _all_memories(coming), same)
    all_of_it = _bytes(given - operands) + _bytes(there) + made
    return Footprint(
        _bytes(_all_memories(kept) - theirs),
        most,
        all_of_it,
        (all_of_it >= most and at) or fullest,
    )


def _most_at_once(
    graph: fx.Graph, elsewhere: Collection[_Memory], same: Mapping[_Memory, _Memory]
) -> tuple[int, fx.Node | None]:
    """The most bytes that values take while a call of a graph runs, its operands and results among
    them; and the first such call.

    Args:
        graph: The graph.
        elsewhere: Memory that is counted elsewhere.
        same: By memory of an operand that of another graph, which it is.
    """
    dead = dead_after(graph)
    holders: Counter[_Memory] = Counter()
    now = most = 0
    fullest = None

    def held(node: fx.Node) -> list[_Memory]:
        memories = (same.get(memory, memory) for memory in _memories(node))
        return [memory for memory in memories if memory not in elsewhere]

    for node in graph.nodes:
        if node.op == "output":
            break
        for memory in held(node):
            if not holders[memory]:
                now += _bytes([memory])
            holders[memory] += 1
        if now > most:
            most, fullest = now, node
        for memory in (memory for each in dead.get(node, ()) for memory in held(each)):
            holders[memory] -= 1
            if not holders[memory]:
                now -= _bytes([memory])
    return most, fullest


def _all_memories(nodes: Sequence[Any]) -> set[_Memory]:
    return {memory for node in nodes for memory in _memories(node)}


def _memories(node: Any) -> list[_Memory]:
    """What a value keeps: one for a tensor, one each for several; none of the program's own."""
    if not isinstance(node, fx.Node):
        return []
    node = memory_of(node)
    if node.op == "get_attr":
        return []
    while _torch.waits_for_collective(node.target):  # it gives back what is waited for
        node = memory_of(node.all_input_nodes[0])
    if node.target is operator.getitem:
        source, index = node.args
        return [(source, index)]
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)):
        return [(node, at) for at, each in enumerate(value) if isinstance(each, torch.Tensor)]
    return [(node, 0)] if isinstance(value, torch.Tensor) else []


def _bytes(memories: Collection[_Memory]) -> int:
    total = 0
    for node, at in memories:
        value = node.meta["val"]
        tensor = value[at] if isinstance(value, (list, tuple)) else value
        total += tensor.numel() * tensor.itemsize
    return total
