"""What a rule may be registered for, and how messages name functions and places."""

from __future__ import annotations

import sys
from typing import Any

from .. import _torch
from .._torch import OpOverload, OpOverloadPacket, RuntimeSchemaInfo
from ..errors import ShardpropError
from ..model.op_traits import traits_of
from ..support.folder import IN_FOLDER
from . import torch_registry
from .places import unwrapped

__all__ = ["as_ops", "calling_place", "check_op", "schema_info_of", "where_is"]


def as_ops(op_or_ops: object) -> list[OpOverload]:
    """The overloads that a caller means, each once.

    Raises:
        ShardpropError: something that is no overload and has no single one.
    """
    items = op_or_ops if isinstance(op_or_ops, (list, tuple)) else [op_or_ops]
    if not items:
        raise ShardpropError("Expected an op overload or a list of them, got an empty list.")
    return [*dict.fromkeys(map(_as_op, items))]


def _as_op(item: object) -> OpOverload:
    if isinstance(item, OpOverload):
        return item
    defined = _torch.overload_of_definition(item)
    if defined is not None:
        return defined
    if isinstance(item, OpOverloadPacket):
        names: list[str] = item.overloads()  # type: ignore[no-untyped-call]
        overloads: list[OpOverload] = [getattr(item, name) for name in names]
        if len(overloads) == 1:
            return overloads[0]
        choices = ", ".join(map(str, overloads))
        raise ShardpropError(
            f"Expected an op overload, got all overloads of {item}. Name the ones that are meant, "
            f"of these in torch.ops: {choices}."
        )
    raise ShardpropError(
        "Expected an op overload such as torch.ops.aten.mm.default, what torch.library.custom_op "
        f"returned, or a list of these, got {item!r}."
    )


def check_op(op: OpOverload) -> None:
    """Would a rule for the op ever be asked, and does torch know the metadata of its outputs?

    Raises:
        ShardpropError: not so; the message says what to do.
    """
    facts = traits_of(op)
    if not facts.takes_tensors:
        raise ShardpropError(
            f"{op}: Expected an op that takes tensors, got {_torch.function_schema(op)}."
        )
    if facts.any_list_return and not (_torch.IS_215_OR_LATER or facts.is_list_op):
        raise ShardpropError(
            f"{op}: Expected an op that returns tensors, got one that returns a list of them, "
            "which torch before 2.15 cannot place by rows. Return a tuple, or use torch 2.15."
        )
    handler = _torch.handler_instead(op)
    if handler is not None or torch_registry.is_read_out(op):
        how = "reads a number out" if handler is None else f"hands it to {where_is(handler)}"
        raise ShardpropError(
            f"{op}: Expected an op whose sharding torch asks for, got one for which its dispatcher "
            f"asks no rule (it {how})."
        )
    if not _torch.has_metadata_kernel(op):
        raise ShardpropError(
            f"{op}: Expected an op with a fake kernel, got one without: shapes and dtypes of its "
            f"outputs must be known before it runs. Register one with torch.library.register_fake("
            f"{str(_torch.function_schema(op).name)!r})."
        )


def schema_info_of(op: OpOverload) -> RuntimeSchemaInfo:
    """What torch's cache keys are to hold of a call: all that the rule is shown.

    Tensors among the positional arguments count in any case, what comes from `static_argnum` on
    and the keyword arguments that are named count too. An optional tensor counts as what it may be:
    None. (Left out, it would be as if the one after it had been given instead.)
    """
    arguments = _torch.function_schema(op).arguments
    positional = [str(a.type) for a in arguments if not a.kwarg_only]
    others = [i for i, kind in enumerate(positional) if kind not in ("Tensor", "List[Tensor]")]
    lists = [a for a in arguments if "List[" in str(a.type) and "Tensor" in str(a.type)]
    return RuntimeSchemaInfo(
        static_argnum=min(others, default=100),
        static_kwargkey=[a.name for a in arguments if a.kwarg_only] or None,
        needs_pytree=bool(lists),
    )


def calling_place() -> str:
    """File and line of the call into this package that is under way."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(IN_FOLDER):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def where_is(function: Any) -> str:
    """A function's name, and file and line of its code."""
    function = unwrapped(function)
    name = getattr(function, "__qualname__", None) or repr(function)
    code = getattr(function, "__code__", None)
    place = "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"
    return f"{getattr(function, '__module__', '?')}.{name}{place}"
