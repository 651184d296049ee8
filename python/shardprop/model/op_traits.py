"""What torch reads off an op's schema again and again, read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import _torch
from .._torch import ArgumentRewrites, OpOverload

__all__ = ["OpTraits", "traits_of"]

aten = torch.ops.aten


@dataclass(frozen=True)
class OpTraits:
    """Traits of one overload.

    Attributes:
        in_place: The base name ends in ``_`` (torch's test for rules, not the schema's).
        tensor_returns: Returns whose type mentions Tensor.
        returns: Number of returns.
        first_return: ``"tensor"``, ``"list"`` or ``"other"``; ``"none"`` without returns.
        any_list_return: Some return is a list.
        arguments: Names of the arguments, in order.
        out_arguments: Names of the ``out=`` arguments, in order.
        is_list_op: torch decides it element by element (foreach and fused ops).
        takes_tensors: Some argument is a tensor, or may be one, or a list of them.
        rewrites_arguments: torch rewrites global sizes among the arguments to local ones.
        rewrites: How it does that.
        mutates: It writes into an argument, or resizes it, says its schema.
        written: Positions of the positional arguments that it writes into.
        viewed: Positions of the positional arguments that a return may be a view of.
        returned: Returns that are arguments it writes into: (return, position of the argument).
        minds_empty: It may raise on tensors without elements, and can be tried on them: no
            elementwise op, none that draws random numbers or takes sizes. Dropout, which draws
            none there, makes its mask of another dtype.
    """

    op: OpOverload

    in_place: bool
    tensor_returns: int
    returns: int
    first_return: str
    any_list_return: bool
    arguments: tuple[str, ...]
    out_arguments: tuple[str, ...]
    is_list_op: bool
    takes_tensors: bool
    rewrites_arguments: bool
    rewrites: ArgumentRewrites
    mutates: bool
    written: tuple[int, ...]
    viewed: tuple[int, ...]
    returned: tuple[tuple[int, int], ...]
    minds_empty: bool

    @property
    def returns_tuple(self) -> bool:
        """Several returns of which the first is a tensor."""
        return self.returns > 1 and self.first_return == "tensor"

    @property
    def returns_tensors(self) -> bool:
        """torch gives the outputs a spec at all."""
        return self.first_return == "tensor" or (self.first_return == "list" and self.returns == 1)


def _first_return(returns: Sequence[torch.Argument]) -> str:
    if not returns:
        return "none"
    if isinstance(returns[0].type, torch.TensorType):
        return "tensor"
    return "list" if isinstance(returns[0].type, torch.ListType) else "other"


# By address, for an overload takes half a microsecond to hash; its traits hold it, so that no other
# gets the address.
_known: dict[int, OpTraits] = {}


def traits_of(op: OpOverload) -> OpTraits:
    """The traits of an overload."""
    traits = _known.get(id(op))
    if traits is None:
        traits = _known[id(op)] = _read(op)
    return traits


# What an op writes into where its schema does not say so, or says more. Batch norm writes its
# running mean and variance. Optimizers write into gradients where these were scaled, and then
# nobody reads them.
_WRITTEN: dict[OpOverload, tuple[int, ...]] = {
    **dict.fromkeys(
        (
            aten.cudnn_batch_norm.default,
            aten.miopen_batch_norm.default,
            aten.native_batch_norm.default,
            aten.native_batch_norm.out,
        ),
        (3, 4),
    ),
    **dict.fromkeys(
        (
            aten._fused_adam_.default,
            aten._fused_adam_.tensor_lr,
            aten._fused_adamw_.default,
            aten._fused_adamw_.tensor_lr,
        ),
        (0, 2, 3, 4),
    ),
}

# They draw random numbers, but none without elements.
_DRAWING_NOTHING = (aten.native_dropout.default, aten.native_dropout.out)

_OF_LISTS = ("aten::_foreach_", "aten::_amp_foreach_", "aten::_fused_")


def _read(op: OpOverload) -> OpTraits:
    schema = _torch.function_schema(op)
    rewrites = _torch.argument_rewrites(op)
    rewrites_arguments = any(each is not None for each in rewrites)
    name: str = op.name()  # type: ignore[no-untyped-call]
    is_list_op = name.startswith(_OF_LISTS) and any(
        "List[Tensor]" in str(a.type) for a in schema.arguments
    )
    written = _WRITTEN.get(op) or tuple(i for i, a in enumerate(schema.arguments) if _is_written(a))
    return OpTraits(
        op=op,
        in_place=name.split("::")[1].split(".")[0].endswith("_"),
        tensor_returns=sum(1 for r in schema.returns if "Tensor" in str(r.type)),
        returns=len(schema.returns),
        first_return=_first_return(schema.returns),
        any_list_return=any(isinstance(r.type, torch.ListType) for r in schema.returns),
        arguments=tuple(a.name for a in schema.arguments),
        out_arguments=tuple(a.name for a in schema.arguments if a.is_out),
        is_list_op=is_list_op,
        takes_tensors=any("Tensor" in str(a.type) for a in schema.arguments),
        rewrites_arguments=rewrites_arguments,
        rewrites=rewrites,
        mutates=schema.is_mutable or op in _WRITTEN,
        written=written,
        viewed=tuple(
            i for i, a in enumerate(schema.arguments) if a.alias_info and not a.alias_info.is_write
        ),
        returned=tuple(
            (at, position)
            for at, result in enumerate(schema.returns)
            for position in written
            if _shares_memory(result, schema.arguments[position])
        ),
        minds_empty=not rewrites_arguments and _minds_empty(op, is_list_op and schema.is_mutable),
    )


def _minds_empty(op: OpOverload, is_written_list: bool) -> bool:
    if op in _DRAWING_NOTHING:
        return True
    tags = {*op.tags, *_torch.elementwise_overload(op).tags}
    return not is_written_list and tags.isdisjoint(
        (torch.Tag.pointwise, torch.Tag.nondeterministic_seeded)
    )


def _shares_memory(result: torch.Argument, argument: torch.Argument) -> bool:
    """Does the schema call the memory of both the same?"""
    made, given = result.alias_info, argument.alias_info
    return made is not None and given is not None and made.before_set == given.before_set


def _is_written(argument: Any) -> bool:
    return not argument.kwarg_only and bool(argument.alias_info and argument.alias_info.is_write)
