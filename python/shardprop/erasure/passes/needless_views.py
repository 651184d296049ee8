"""Views that change nothing, and views of views."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ...model.graph_values import value_of

__all__ = ["without_needless_views"]

aten = torch.ops.aten

_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
_CHANGING_NOTHING = (
    aten.alias.default,
    aten.detach.default,
    aten.expand.default,
    aten.permute.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.t.default,
    aten.transpose.int,
    *_VIEWS,
)
_SWAPPING = (aten.t.default, aten.transpose.int)


def without_needless_views(graph: fx.Graph) -> None:
    """Take each use of a view that shows its tensor as it is for one of the tensor; a view of a
    view for one of the first tensor, where that has the same elements in a row."""
    returned = set(graph.output_node().all_input_nodes)
    for node in graph.nodes:
        if node.op != "call_function" or node.target not in _CHANGING_NOTHING:
            continue
        source: Any = node.args[0]
        if node.target in _VIEWS:
            first = _first_in_a_row(source)
            if first is not source:
                node.args = (first, *node.args[1:])
                node.target = aten.view.default
                source = first
        elif node.target in _SWAPPING and source.target in _SWAPPING:
            source = source.args[0]
        # A result that is an operand, or another result, would be the same tensor for a program.
        is_free = node not in returned or not (source.op == "placeholder" or source in returned)
        if is_free and _looks_the_same(value_of(node), value_of(source)):
            node.replace_all_uses_with(source)
            if node in returned:
                returned.add(source)


def _looks_the_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        one.shape == other.shape
        and one.stride() == other.stride()
        and one.dtype == other.dtype
        and one.storage_offset() == other.storage_offset()
    )


def _first_in_a_row(node: Any) -> Any:
    """What a view's tensor is a view of, its elements being in a row in both."""
    while (
        node.op == "call_function"
        and node.target in _VIEWS
        and value_of(node).is_contiguous()
        and value_of(node.args[0]).is_contiguous()
    ):
        node = node.args[0]
    return node
