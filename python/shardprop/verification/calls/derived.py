"""Calls of in-place and ``out=`` ops from calls of the functional op."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..._torch import OpOverload, function_schema
from ...model.op_traits import traits_of
from .call import Call

__all__ = ["derived", "functional_of"]


def functional_of(op: OpOverload) -> OpOverload | None:
    """The op that computes the same of the same arguments and writes into fewer of them."""
    if not function_schema(op).is_mutable:
        return None
    packet = getattr(torch.ops, op.namespace)
    name = function_schema(op).name.partition("::")[2]
    for base in (name, name.removesuffix("_"), name.removesuffix("_out")):
        functional = getattr(packet, base, None)
        for overload in functional.overloads() if functional is not None else ():
            found: OpOverload = getattr(functional, overload)
            if _written(found) < _written(op) and _arguments(found) == _arguments(op):
                return found
    return None


def derived(op: OpOverload, calls: Iterable[Call]) -> Iterator[Call]:
    """The calls of `op` with the arguments of `calls`, which are of its functional op."""
    outs = traits_of(op).out_arguments
    for call in calls:
        kwargs = dict(call.kwargs)
        if outs:
            results = call.results()
            if results is None:
                continue
            is_list = len(outs) == 1 and len(results) != 1
            kwargs |= {outs[0]: results} if is_list else dict(zip(outs, results, strict=False))
        made = Call(op, call.args, kwargs, f"{call.origin}, as {function_schema(op).name}")
        if made.results() is not None:
            yield made


def _written(op: OpOverload) -> int:
    """Into how many of its arguments it writes."""
    infos = [argument.alias_info for argument in function_schema(op).arguments]
    return sum(info is not None and info.is_write for info in infos)


def _arguments(op: OpOverload) -> list[tuple[Any, ...]]:
    """Names and types of what is given to an op, save for where it writes."""
    return [
        (argument.name, str(argument.type), argument.kwarg_only)
        for argument in function_schema(op).arguments
        if not argument.is_out
    ]
