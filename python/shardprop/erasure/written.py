"""Operands into which a program writes: its local graphs return what they hold afterwards."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import fx

from .. import _torch
from ..model.graph_values import called
from .in_place import written_in_place
from .sharing import memory_of

__all__ = ["silently", "values_apart", "why_not_written", "writing"]

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


def silently(forward: fx.Graph, written: Sequence[int]) -> Sequence[bool]:
    """For each operand into which is written: does nobody count that? So it is with the running
    statistics of batch norm, which are no written argument of the op, but are written by it.

    Args:
        forward: Returns what is written, then all else.
        written: The operands.
    """
    returned: Any = forward.output_node().args[0]
    return [_is_of_batch_norm(node) for node in returned[: len(written)]]


def _is_of_batch_norm(node: Any) -> bool:
    if node is None or node.target is not operator.getitem:
        return False
    return "batch_norm" in str(node.args[0].target)


def writing(
    written: Sequence[int], silent: Sequence[bool]
) -> Callable[[Sequence[Any], Sequence[Any]], None]:
    """What writes into operands, given all operands and what a rank holds of the new values; None
    for a value that is there."""

    def write(operands: Sequence[Any], values: Sequence[Any]) -> None:
        for at, value, is_silent in zip(written, values, silent, strict=True):
            operand = operands[at]
            held = _torch.local_of(operand) if isinstance(operand, _torch.DTensor) else operand
            if value is not None:
                with _torch.below_versions() if is_silent else nullcontext():
                    held.copy_(value)
            if held is not operand and not is_silent and not operand.is_inference():
                torch.autograd.graph.increment_version(operand)

    return write


def why_not_written(operands: Sequence[Any], written: Sequence[int]) -> str | None:
    """Why these operands cannot be written into by the local graphs, which were followed for
    operands each of which has memory of its own; None if they can."""
    held = [_held(operand) for operand in operands]
    into = {at for at in written if held[at] is not None}
    if not torch.is_inference_mode_enabled() and any(held[at].is_inference() for at in into):  # type: ignore[union-attr]
        return "it writes into a tensor that was made in inference mode"
    memories = sorted(
        (*_memory(tensor), at in into) for at, tensor in enumerate(held) if tensor is not None
    )
    # In the order in which they begin, one overlaps an earlier one that ends after it begins.
    end_of_all = end_of_written = 0
    for begin, end, is_written in memories:
        if begin < (end_of_all if is_written else end_of_written):
            return "it writes into an operand that shares memory with another"
        end_of_all = max(end_of_all, end)
        end_of_written = max(end_of_written, end if is_written else 0)
    return None


def _held(operand: Any) -> torch.Tensor | None:
    if not isinstance(operand, torch.Tensor):
        return None
    return _torch.local_of(operand) if isinstance(operand, _torch.DTensor) else operand


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    """Where the memory of a tensor, whoever made it, begins and ends."""
    storage = tensor.untyped_storage()
    begin = storage.data_ptr()
    return begin, begin + storage.nbytes()
