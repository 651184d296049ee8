"""How often a program gives something to the gradient of an operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

__all__ = ["uses_of"]


def uses_of(operands: Sequence[Any], results: Sequence[Any]) -> list[int]:
    """For each operand how many edges of autograd's graph lead to it from what was made of it."""
    edges = {_edge(operand): at for at, operand in enumerate(operands) if _has_gradient(operand)}
    counts = [0] * len(operands)
    waiting = [result.grad_fn for result in results if _has_gradient(result)]
    seen = {*waiting}  # holds them: torch makes the objects anew when they are gone
    while waiting:
        node = waiting.pop()
        for edge in node.next_functions if node is not None else ():
            at = edges.get(edge)
            if at is not None:
                counts[at] += 1
            elif edge[0] not in seen:
                seen.add(edge[0])
                waiting.append(edge[0])
    return counts


def _has_gradient(item: object) -> bool:
    return isinstance(item, torch.Tensor) and item.requires_grad


def _edge(tensor: torch.Tensor) -> tuple[Any, int]:
    edge: GradientEdge = get_gradient_edge(tensor)
    return edge.node, edge.output_nr
