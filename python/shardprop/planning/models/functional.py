"""Traced graphs freed of ops that write into their arguments."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from ... import _torch
from ..._torch import OpOverload, function_schema
from ...errors import ShardpropError
from ...model.op_traits import traits_of

__all__ = ["Marked", "without_writes"]

# Where torch lets a node carry what is ours.
_CUSTOM = "custom"

_BATCH_NORM = torch.ops.aten.native_batch_norm.default
_BATCH_NORM_RETURNING = torch.ops.aten._native_batch_norm_legit_functional.default


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
    marked = _saying_what_is_written(marked)
    if not any(map(_writes, marked.module.graph.nodes)):
        return marked
    for node in marked.module.graph.nodes:
        node.meta[_CUSTOM] = {
            "path": marked.paths[node],
            "backward": node in marked.backward,
        }
    run = fx.Interpreter(marked.module).run
    # What autocast changes was changed when the graph was traced.
    with torch.no_grad(), _torch.without_autocast(), fx.traceback.preserve_node_meta():
        made = make_fx(functionalize(run, remove="mutations"), tracing_mode="real")(*args)
    known = {node: node.meta.get(_CUSTOM, {}) for node in made.graph.nodes}
    return Marked(
        made,
        {node: notes.get("path", "") for node, notes in known.items()},
        frozenset(node for node, notes in known.items() if notes.get("backward", False)),
    )


def _saying_what_is_written(marked: Marked) -> Marked:
    """The same with batch norms that write their running statistics, which their schema is silent
    about, replaced by ones that return them, and copies.

    Raises:
        ShardpropError: another op that writes without saying so.
    """
    paths, backward = dict(marked.paths), set(marked.backward)
    graph = marked.module.graph
    for node in [*graph.nodes]:
        written = _written_in_silence(node)
        if not written:
            continue
        if node.target is not _BATCH_NORM:
            raise ShardpropError(
                f"Expected ops whose schemas say what they write into, got {node.target}."
            )
        node.target = _BATCH_NORM_RETURNING
        with graph.inserting_after(node):
            for output, buffer in enumerate(written, 3):
                made = graph.call_function(operator.getitem, (node, output))
                copied = graph.call_function(torch.ops.aten.copy_.default, (buffer, made))
                made.append(copied)
                for each in (made, copied):
                    paths[each] = paths[node]
                    backward |= {each} if node in backward else set()
    marked.module.recompile()
    return Marked(marked.module, paths, frozenset(backward))


def _written_in_silence(node: fx.Node) -> list[Any]:
    """The tensors that an op writes into though its schema does not say so."""
    op = node.target
    if not isinstance(op, OpOverload) or function_schema(op).is_mutable:
        return []
    names = traits_of(op).arguments
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    if not (given.get("training") or given.get("train")):
        return []
    return [x for at in traits_of(op).written if (x := given.get(names[at])) is not None]


def _writes(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and function_schema(target).is_mutable
