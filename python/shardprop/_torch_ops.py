"""The adapter's part for the question which ops there are, and how torch would decide them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.distributed.tensor import DTensor, _decompositions, _dispatch

from ._torch import propagator

__all__ = [
    "all_ops",
    "comes_apart_above",
    "handlers_instead_of_propagation",
    "has_decomposition",
    "ops_with_a_rule",
]

# The handlers of torch's dispatcher that ask the propagator and do something more around it.
_ASKING_HANDLERS = frozenset(
    getattr(_dispatch, name)
    for name in ("argminmax_handler", "convolution_handler", "convolution_backward_handler")
)


def ops_with_a_rule() -> set[OpOverload]:
    """Ops in one of torch's three registries of rules."""
    prop = propagator()
    return {*prop.op_single_dim_strategy_funcs, *prop.op_strategy_funcs, *prop.op_to_rules}


def handlers_instead_of_propagation() -> Mapping[OpOverload, Callable[..., Any]]:
    """Ops that torch's dispatcher hands to a function which asks for no decision about them."""
    handlers = DTensor._op_dispatcher._custom_op_handlers
    return {op: handler for op, handler in handlers.items() if handler not in _ASKING_HANDLERS}


def has_decomposition(op: OpOverload) -> bool:
    """Would torch trace a decomposition for the op if it had no rule?"""
    return _decompositions.DecompShardingStrategy.has_decomp(op)


def all_ops() -> Iterator[OpOverload]:
    """Every overload that the dispatcher knows."""
    for name in torch._C._dispatch_get_all_op_names():
        qualified, _, overload = name.partition(".")
        namespace, _, packet = qualified.partition("::")
        found = getattr(getattr(torch.ops, namespace), packet)
        yield getattr(found, overload or "default")


def comes_apart_above(op: OpOverload) -> bool:
    """Is the op composite, so that autograd takes it apart before DTensor sees it?

    In inference mode there is no autograd, and DTensor gets the op whole.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = op.name()  # type: ignore[no-untyped-call]
    key = torch._C.DispatchKey
    is_composite = has_kernel(name, key.CompositeImplicitAutograd)
    return is_composite and not (has_kernel(name, key.CPU) or has_kernel(name, key.CUDA))
