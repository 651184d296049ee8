"""The fastest function that makes a graph's call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.utils._pytree import tree_leaves, tree_map

from .modes import no_modes
from .types import OpOverload, TorchDispatchMode

__all__ = [
    "function_of_call",
    "functions_in_functions",
    "has_plain_sizes",
    "is_pure",
    "may_be_a_view",
    "op_may_give_a_view",
]


class _FirstCall(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes which op is called first and with what, and does not carry it out."""

    seen: Any = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen = func, tree_map(_told_apart, (args, kwargs or {}))
        raise _SeenError


class _SeenError(Exception):
    pass


def function_of_call(node: fx.Node) -> Callable[..., Any]:
    """What calls a node's op, given its arguments.

    torch's own functions in C++ reach a kernel in half the time that an overload takes. One is
    taken only if on tensors like these it makes this call and no other.
    """
    op = node.target
    assert callable(op)
    if not isinstance(op, OpOverload):
        return op
    # The call itself, without a frame of Python around it, unless there is a faster way.
    return next((each for each in _candidates(op) if _makes_this_call(each, node)), op._op)


def _candidates(op: OpOverload) -> list[Callable[..., Any]]:
    if op.namespace != "aten":
        return []
    name = op._schema.name.partition("::")[2]
    found = [getattr(place, name, None) for place in (torch, torch.Tensor, torch._C._nn)]
    return [each for each in found if each is not None and _is_of_c(each)]


def _is_of_c(function: Any) -> bool:
    return not hasattr(function, "__code__") and not hasattr(function, "__wrapped__")


def _makes_this_call(function: Callable[..., Any], node: fx.Node) -> bool:
    args, kwargs = fx.node.map_arg((node.args, dict(node.kwargs)), lambda each: each.meta["val"])
    if not all(has_plain_sizes(each) for each in tree_leaves((args, kwargs))):
        return False
    with no_modes(), torch.no_grad():
        args, kwargs = tree_map(_on_meta, (args, kwargs))
        calls = [_first_call(each, args, kwargs) for each in (function, node.target)]
    return calls[0] is not None and calls[0][0] is node.target and calls[0] == calls[1]


def _first_call(function: Any, args: Any, kwargs: Any) -> Any:
    """The first op that is called, and its arguments; None if the function refuses them."""
    mode = _FirstCall()  # type: ignore[no-untyped-call]
    try:
        with mode:
            function(*args, **kwargs)
    except _SeenError:
        return mode.seen
    except (TypeError, RuntimeError):
        return None
    return None


def functions_in_functions(program: fx.GraphModule) -> list[str]:
    """The names of those ops in a program that are given functions: activation checkpointing,
    ``torch.cond``, the program's own autograd functions. Run by torch, they may be other than the
    program: what a backward reads is read in the forward."""
    targets = (node.target for node in program.graph.nodes)
    return [str(target) for target in targets if isinstance(target, HigherOrderOperator)]


def is_pure(op: object) -> bool:
    """Is it an op of torch's own that writes nothing and draws no random numbers?"""
    return (
        isinstance(op, OpOverload)
        and op.namespace in ("aten", "prims")
        and not op._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in op.tags
    )


def may_be_a_view(node: fx.Node) -> bool:
    """May what a call makes share the memory of an operand?"""
    return not isinstance(node.target, OpOverload) or op_may_give_a_view(node.target)


def op_may_give_a_view(op: OpOverload) -> bool:
    """May what an op makes share the memory of an operand?"""
    if op is torch.ops.aten._unsafe_view.default:
        return True
    return any(each.alias_info is not None for each in op._schema.arguments)


def has_plain_sizes(value: object) -> bool:
    """Is it a tensor of sizes that are numbers, or no tensor and no size that varies?"""
    if isinstance(value, torch.Tensor):
        return all(type(size) is int for size in (*value.shape, *value.stride()))
    return not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def _on_meta(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def _told_apart(item: Any) -> Any:
    """Equal only for the same tensor, or for equal things of one type."""
    return id(item) if isinstance(item, torch.Tensor) else (type(item), repr(item))
