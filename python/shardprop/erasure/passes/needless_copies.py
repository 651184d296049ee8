"""Copies that nobody tells from what they are a copy of."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ..._torch.graph_calls import may_be_a_view
from ...model.graph_values import value_of

__all__ = ["without_needless_copies"]

aten = torch.ops.aten


def without_needless_copies(graph: fx.Graph) -> None:
    """Take a copy for the tensor itself, where both are laid out alike and the copy does not leave
    the graph: nothing in it is written into."""
    leaving = {*graph.output_node().all_input_nodes}
    for node in graph.find_nodes(op="call_function", target=aten.clone.default):
        source: Any = node.args[0]
        copy, whole = value_of(node), value_of(source)
        if node in leaving or _views_leave(node, leaving):
            continue
        if copy.stride() == whole.stride():
            node.replace_all_uses_with(source)


def _views_leave(node: fx.Node, leaving: set[fx.Node]) -> bool:
    """Does something leave that may share the memory of a node?"""
    views = [user for user in node.users if user.op != "output" and may_be_a_view(user)]
    return any(view in leaving or _views_leave(view, leaving) for view in views)
