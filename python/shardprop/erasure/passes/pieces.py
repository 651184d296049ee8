"""Tensors that are split along one dim and joined along another, moved at once.

So torch brings what it has gathered into place, and so it makes ready what it is to scatter: with
as many pieces as there are ranks.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from ...model.graph_values import called, value_of

__all__ = ["pieces_moved_at_once"]

aten = torch.ops.aten


def pieces_moved_at_once(graph: fx.Graph) -> None:
    """In place of a split and a cat of all its pieces in order: views and one copy."""
    for node in graph.find_nodes(op="call_function", target=aten.cat.default):
        whole = _split_by(node)
        if whole is not None:
            source, dim, pieces = whole
            target = node.args[1] if len(node.args) > 1 else 0
            with graph.inserting_before(node):
                moved = _moved(graph, source, dim, pieces, target)
            # A cat keeps the memory format of its operands.
            if value_of(moved).stride() == value_of(node).stride():
                node.replace_all_uses_with(moved)


def _split_by(cat: fx.Node) -> tuple[fx.Node, int, int] | None:
    """What the pieces that are joined were split from, along which dim, and how many there are;
    None if they are not all of equal pieces, in order."""
    pieces: Any = cat.args[0]
    first = pieces[0]
    if first.target is not operator.getitem or first.args[0].target is not aten.split.Tensor:
        return None
    split = first.args[0]
    source, size, *rest = split.args
    dim = rest[0] if rest else 0
    count, left = divmod(value_of(source).shape[dim], size) if isinstance(size, int) else (0, 1)
    if left or len(pieces) != count:
        return None
    for index, piece in enumerate(pieces):
        if piece.target is not operator.getitem or piece.args != (split, index):
            return None
    return source, dim % value_of(source).ndim, count


def _moved(graph: fx.Graph, source: fx.Node, dim: int, pieces: int, target: Any) -> fx.Node:
    """As many pieces of one dim one after another in another."""
    shape = [*value_of(source).shape]
    target %= len(shape)
    split = [*shape[:dim], pieces, shape[dim] // pieces, *shape[dim + 1 :]]
    joined = [*shape]
    joined[dim] //= pieces
    joined[target] *= pieces
    order = [at for at in range(len(split)) if at != dim]
    order.insert(target, dim)
    by_piece = called(graph, aten.view.default, source, split)
    moved = called(graph, aten.permute.default, by_piece, order)
    copied = called(graph, aten.clone.default, moved, memory_format=torch.contiguous_format)
    return called(graph, aten.view.default, copied, joined)
