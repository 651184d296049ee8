"""One call, run on other tensors than its own: what it returns, and what it has written to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from .. import _torch, registry
from .._torch import OpOverload
from .calls import Call
from .partials import Untestable

__all__ = ["Executable", "Outcome"]

# What these return was never computed.
_UNINITIALISED = ("empty", "new_empty", "resize", "_resize", "set_", "_empty")


class Outcome(NamedTuple):
    """What a call made.

    Attributes:
        outputs: The tensors returned, lists walked; None where the op returned none.
        written: The operands that it writes to, as they are afterwards.
    """

    outputs: list[torch.Tensor | None]
    written: dict[int, torch.Tensor]


class Executable:
    """A call taken apart, so that it can be run on each rank's operands.

    Attributes:
        call: The call.
        operands: Its tensors, in the order of a row.
        groups: Operands that are placed alike: those of one list.
        written: Operands that the op writes to.
        aliases: Per output the operand that it is, for outputs that are operands written to.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self._leaves, self._spec = _torch.tree_flatten((call.args, call.kwargs))
        self._slots = [i for i, x in enumerate(self._leaves) if isinstance(x, torch.Tensor)]
        self.operands: list[torch.Tensor] = [self._leaves[i] for i in self._slots]
        self.groups = _groups(call)
        arguments = _operands_of_arguments(call)
        written = {name for name, info in _written(call.op).items() if info}
        self.written = sorted(i for name in written for i in arguments.get(name, ()))
        self._written_by_alias = {
            alias: arguments.get(name, [])
            for name, aliases in _written(call.op).items()
            for alias in aliases
        }
        self._shape_arguments = registry.shape_arguments(call.op)
        self._squeezes = call.op in _torch.propagator().squeeze_op_to_dims_variant
        self._counts_its_input = call.op in _torch.propagator().op_to_scalar_shape_adjuster

    @property
    def rewrites_shape(self) -> bool:
        """Is there an argument with the shape of the output, of which each rank has its own?"""
        return bool(self._shape_arguments)

    @property
    def writes(self) -> bool:
        """Does it write to an operand?"""
        return bool(self.written)

    def alias_of(self, outputs: int) -> list[int | None]:
        """Per output the operand that it is."""
        found: list[int | None] = []
        for result in self.call.op._schema.returns:
            info = result.alias_info
            is_written = info is not None and info.is_write
            names = info.before_set if is_written else ()
            found += [i for name in names for i in self._written_by_alias.get(name, ())] or [None]
        # A list whose elements are no operands has more outputs than returns.
        return found if len(found) == outputs else [None] * outputs

    def run(
        self, operands: Sequence[torch.Tensor], output_shape: Sequence[int] | None = None
    ) -> Outcome:
        """Run the op, on clones of what it writes to.

        `output_shape` is the local shape of the output, where arguments of the op hold it and torch
        puts the local one there.

        Raises:
            Exception: what the op raises.
        """
        tensors = list(operands)
        for index in self.written:
            tensors[index] = tensors[index].clone()
        leaves = list(self._leaves)
        for slot, tensor in zip(self._slots, tensors, strict=True):
            leaves[slot] = tensor
        args, kwargs = _torch.tree_unflatten(leaves, self._spec)
        op, args = self._localised(args, output_shape)
        result = op(*args, **kwargs)
        return Outcome(_outputs(result), {index: tensors[index] for index in self.written})

    def _localised(
        self, args: tuple[Any, ...], output_shape: Sequence[int] | None
    ) -> tuple[OpOverload, tuple[Any, ...]]:
        """Global sizes among the arguments as torch rewrites them for one rank."""
        op = self.call.op
        if self._squeezes:
            return _torch.propagator().squeeze_op_to_dims_variant[op], (
                args[0],
                _singletons(self.operands[0].shape, args[1:]),
            )
        if self._shape_arguments and output_shape is not None:
            at = self._shape_arguments[0]
            return op, (*args[:at], list(output_shape), *args[at + 1 :])
        if self._counts_its_input:
            # native_group_norm(input, weight?, bias?, N, C, HxW, ...)
            at = sum(isinstance(a, torch.Tensor) or a is None for a in args)
            n, c, *rest = args[0].shape
            return op, (*args[:at], n, c, torch.Size(rest).numel(), *args[at + 3 :])
        return op, args

    def reason_to_skip(self) -> str | None:
        """Why the call says nothing about a rule; None if it does."""
        op = self.call.op
        if torch.Tag.nondeterministic_seeded in op.tags:
            return "random op"
        if op._schema.name.split("::")[1].startswith(_UNINITIALISED):
            return "uninitialised output"
        if not self.operands:
            return "no tensor among the arguments"
        if any(
            tensor.layout is not torch.strided or tensor.is_quantized for tensor in self.operands
        ):
            return "operand that is no plain strided tensor"
        return None


def expected_of(executable: Executable, operands: Sequence[torch.Tensor]) -> Outcome:
    """What the op makes of whole tensors.

    Raises:
        Untestable: the op is not deterministic, or gives no plain tensors.
        Exception: what the op raises.
    """
    outcome = executable.run(operands)
    tensors = [x for x in (*outcome.outputs, *outcome.written.values()) if x is not None]
    if not tensors:
        raise Untestable("no tensor among the outputs")
    if any(tensor.layout is not torch.strided or tensor.is_quantized for tensor in tensors):
        raise Untestable("output that is no plain strided tensor")
    again = executable.run(operands)
    repeated = [x for x in (*again.outputs, *again.written.values()) if x is not None]
    if any(not _same_bits(a, b) for a, b in zip(tensors, repeated, strict=True)):
        raise Untestable("not deterministic")
    return outcome


def _same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape:
        return False
    return torch.equal(first, second) or bool(
        ((first == second) | (first.isnan() & second.isnan())).all()
    )


def _outputs(result: Any) -> list[torch.Tensor | None]:
    if isinstance(result, torch.Tensor):
        return [result]
    if not isinstance(result, (tuple, list)):
        return []
    made: list[torch.Tensor | None] = []
    for item in result:
        if isinstance(item, (tuple, list)):
            made += [x for x in item if isinstance(x, torch.Tensor)]
        elif item is None or isinstance(item, torch.Tensor):
            made.append(item)
    return made


def _singletons(shape: torch.Size, dims: Sequence[Any]) -> tuple[int, ...]:
    """The dims that a squeeze removes from the whole tensor, and so from every rank's."""
    chosen: Sequence[int] = range(len(shape))
    if dims:
        chosen = [dims[0]] if isinstance(dims[0], int) else dims[0]
    return tuple(dim % len(shape) for dim in chosen if shape and shape[dim] == 1)


def _written(op: OpOverload) -> dict[str, set[str]]:
    """Per argument that is written to the names of its alias sets."""
    return {
        argument.name: set(argument.alias_info.before_set)
        for argument in op._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    }


def _operands_of_arguments(call: Call) -> dict[str, list[int]]:
    """Per argument the operands in it."""
    names = [argument.name for argument in call.op._schema.arguments]
    named = [*zip(names, call.args, strict=False), *_in_leaf_order(call.kwargs)]
    found: dict[str, list[int]] = {}
    operand = 0
    for name, value in named:
        count = sum(isinstance(x, torch.Tensor) for x in _torch.tree_leaves(value))
        found[name] = list(range(operand, operand + count))
        operand += count
    return found


def _in_leaf_order(kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    names, spec = _torch.tree_flatten({name: name for name in kwargs})
    del spec
    return [(name, kwargs[name]) for name in names]


def _groups(call: Call) -> list[list[int]]:
    """Operands by argument: what is in one list is in one group."""
    return [group for group in _operands_of_arguments(call).values() if group]
