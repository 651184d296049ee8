"""Operands into which a program writes: its local graphs return what they hold afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from .. import _torch
from ..model.graph_values import called
from .in_place import written_in_place
from .sharing import memory_of

__all__ = ["shares_what_is_written", "values_apart", "writing"]

_CLONE = torch.ops.aten.clone.default


def values_apart(forward: fx.Graph, written: Sequence[int], results: int) -> None:
    """Have a forward return copies where it returned what operands hold before they are written
    into, and write where they are what is written into a part.

    Args:
        forward: Returns what is written (then None for what it writes itself), then results, then
            what the backward needs.
        written: By place those of its operands into which is written.
        results: How many results it has.
    """
    output = forward.output_node()
    returned: Any = output.args[0]
    operands = forward.find_nodes(op="placeholder")
    overwritten = {operands[at] for at in written}
    first, last = len(written), len(written) + results

    def before(node: fx.Node) -> fx.Node:
        if memory_of(node) not in overwritten:
            return node
        with forward.inserting_before(output):
            return called(forward, _CLONE, node)

    values, kept = map(before, returned[:first]), map(before, returned[last:])
    output.args = ([*values, *returned[first:last], *kept],)
    written_in_place(forward, written, results)


def writing(written: Sequence[int]) -> Callable[[Sequence[Any], Sequence[Any]], None]:
    """What writes into operands, given all operands and what a rank holds of the new values; None
    for a value that is there."""

    def write(operands: Sequence[Any], values: Sequence[Any]) -> None:
        for at, value in zip(written, values, strict=True):
            operand = operands[at]
            held = _torch.local_of(operand) if isinstance(operand, _torch.DTensor) else operand
            if value is not None:
                held.copy_(value)
            elif not held.is_inference():
                torch.autograd.graph.increment_version(held)
            if held is not operand and not operand.is_inference():
                torch.autograd.graph.increment_version(operand)

    return write


def shares_what_is_written(operands: Sequence[Any], written: Sequence[int]) -> bool:
    """Does an operand into which is written share memory with another operand?"""
    memory = [_address(operand) for operand in operands]
    return any(memory[at] and memory.count(memory[at]) > 1 for at in written)


def _address(operand: Any) -> int:
    """Of its memory; 0 where it has none."""
    if not isinstance(operand, torch.Tensor):
        return 0
    local = _torch.local_of(operand) if isinstance(operand, _torch.DTensor) else operand
    return local.untyped_storage().data_ptr()
