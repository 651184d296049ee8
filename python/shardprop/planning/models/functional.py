"""Traced graphs freed of ops that write into their arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import fx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from ..._torch import OpOverload, function_schema

__all__ = ["Marked", "without_writes"]

# Where torch lets a node carry what is ours.
_CUSTOM = "custom"


class Marked(NamedTuple):
    """A graph, and what is known of its nodes.

    Attributes:
        module: The graph with what it calls.
        paths: Per node the path of its module.
        backward: The nodes of the backward pass.
    """

    module: fx.GraphModule
    paths: dict[fx.Node, str]
    backward: frozenset[fx.Node]


def without_writes(marked: Marked, args: tuple[Any, ...]) -> Marked:
    """The same with every op that writes replaced by one that does not, views after it made anew.

    A write into an argument of the graph stays, as a copy at the end.

    Args:
        marked: What was traced; itself if nothing writes.
        args: What it was traced with.
    """
    if not any(map(_writes, marked.module.graph.nodes)):
        return marked
    for node in marked.module.graph.nodes:
        node.meta[_CUSTOM] = {
            "path": marked.paths[node],
            "backward": node in marked.backward,
        }
    run = fx.Interpreter(marked.module).run
    with torch.no_grad(), fx.traceback.preserve_node_meta():
        made = make_fx(functionalize(run, remove="mutations"), tracing_mode="real")(*args)
    known = {node: node.meta.get(_CUSTOM, {}) for node in made.graph.nodes}
    return Marked(
        made,
        {node: notes.get("path", "") for node, notes in known.items()},
        frozenset(node for node, notes in known.items() if notes.get("backward", False)),
    )


def _writes(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and function_schema(target).is_mutable
