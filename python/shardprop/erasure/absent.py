"""A backward of which some results have no gradient: what these alone lead to is not computed."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import torch
from torch import fx

from ..model.graph_values import value_of

__all__ = ["beside_a_loss", "without_tangents"]

aten = torch.ops.aten


def beside_a_loss(shapes: Sequence[torch.Size]) -> frozenset[int]:
    """Those of the results with a gradient, by place, that get none where a backward begins as most
    do: from what is a single number. None where nothing is."""
    losses = {at for at, shape in enumerate(shapes) if shape.numel() == 1}
    return frozenset(range(len(shapes))) - losses if losses else frozenset()


def without_tangents(
    module: fx.GraphModule, tangents: int, absent: Container[int]
) -> fx.GraphModule:
    """The backward for the other gradients; it takes the absent ones, too, and does not look.

    As in autograd, what depends on absent gradients alone has none: it is left out of sums, and
    zeros where another op takes it.

    Args:
        module: The backward; its last operands are the gradients of results.
        tangents: How many these are.
        absent: Which of them there are not.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.graph_copy(module.graph, copies)
    returned: Any = module.graph.output_node().args[0]
    graph.output([None if node is None else copies[node] for node in returned])
    taken = graph.find_nodes(op="placeholder")
    without = {node for at, node in enumerate(taken[-tangents:]) if at in absent}
    led_by = set(taken[-tangents:])  # what depends on a gradient at all
    for node in graph.nodes:
        if node.op not in ("call_function", "output"):
            continue
        led = [each for each in node.all_input_nodes if each in led_by]
        missing = [each for each in led if each in without]
        if node.op == "output":
            kept = [None if each in without else each for each in node.args[0]]
            node.args = (kept,)
        elif led:
            led_by.add(node)
            if len(missing) == len(led):
                without.add(node)
            else:
                for each in missing:
                    _leave_out(graph, node, each)
    # Collectives have effects, and would stay: on DTensors they do not begin.
    for node in reversed(graph.nodes):
        if node in without and node.op == "call_function" and not node.users:
            graph.erase_node(node)
    graph.eliminate_dead_code()
    return fx.GraphModule(module, graph)


def _leave_out(graph: fx.Graph, node: fx.Node, missing: fx.Node) -> None:
    """What a call makes without one of its operands."""
    if node.target is aten.add.Tensor and len(node.args) == 2 and not node.kwargs:
        (other,) = (each for each in node.args if each is not missing)
        if isinstance(other, fx.Node) and _alike(node, other):
            node.replace_all_uses_with(other)
            return
    value = value_of(missing)
    with graph.inserting_before(node):
        zeros = graph.call_function(
            aten.zeros.default,
            ([*value.shape],),
            {"dtype": value.dtype, "device": value.device},
        )
    zeros.meta["val"] = value
    node.replace_input_with(missing, zeros)


def _alike(one: fx.Node, other: fx.Node) -> bool:
    a, b = value_of(one), value_of(other)
    return a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()
