"""Calls in a graph, and the tensors that they stand for."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

__all__ = ["called", "value_of"]


def value_of(node: Any) -> torch.Tensor:
    """The (fake) tensor that a node stands for."""
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor)
    return value


def called(graph: fx.Graph, op: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A call at the place where the graph inserts, with the tensor that it stands for."""
    node = graph.call_function(op, args, kwargs)
    given, named = fx.node.map_arg((args, kwargs), lambda each: each.meta["val"])
    node.meta["val"] = op(*given, **named)
    return node
