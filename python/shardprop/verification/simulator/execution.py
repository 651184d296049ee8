"""One call, run on other tensors than its own: what it returns, and what it has written to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ... import _torch
from ..._torch import OpOverload
from ...model.op_traits import traits_of
from ..calls.call import Call, is_plain, tensors_in
from .partials import Untestable

__all__ = ["Executable", "Outcome", "expected_of", "is_uninitialised", "outputs_in"]

# What these return was never computed.
_UNINITIALISED = ("empty", "new_empty", "resize", "_resize", "set_", "_empty")

# How often a random op has to draw the same: with a probability of 0, say, it always does.
_DRAWS = 16


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
        arguments: Per argument, by name, the operands in it.
        groups: Operands that are placed alike: those of one list.
        written: Operands that the op writes to.
        kept: Those of them that may be read afterwards, which gradients are not that an optimizer
            has scaled.
        outs: Those of them that are ``out=`` arguments, whose elements it does not read.
        aliases: Per output the operand that it is, for outputs that are operands written to.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.operands = call.tensors
        self.arguments = arguments = _operands_of_arguments(call)
        self.groups = [group for group in arguments.values() if group]
        written = _written(call.op)
        self.written = sorted(i for name in written for i in arguments.get(name, ()))
        traits = traits_of(call.op)
        self.outs = [i for name in traits.out_arguments for i in arguments.get(name, ())]
        read = {*traits.out_arguments, *(traits.arguments[at] for at in traits.written)}
        self.kept = sorted(i for name in written if name in read for i in arguments.get(name, ()))
        self._written_by_alias = {
            alias: arguments.get(name, []) for name, aliases in written.items() for alias in aliases
        }
        self._rewrites = traits.rewrites

    @property
    def rewrites_shape(self) -> bool:
        """Is there an argument with the shape of the output, of which each rank has its own?"""
        return bool(self._rewrites.positions)

    def alias_of(self, outputs: int) -> list[int | None]:
        """Per output the operand that it is."""
        found: list[int | None] = []
        for result in _torch.function_schema(self.call.op).returns:
            info = result.alias_info
            names = info.before_set if info is not None and info.is_write else ()
            found += [i for name in names for i in self._written_by_alias.get(name, ())] or [None]
        # A list whose elements are no operands has more outputs than returns.
        return found if len(found) == outputs else [None] * outputs

    def run(
        self, operands: Sequence[torch.Tensor], output_shape: Sequence[int] | None = None
    ) -> Outcome:
        """Run the op, on clones of what it writes to.

        `output_shape` is the local shape of the output, where arguments of the op hold it and torch
        puts the local one there.

        An ``out=`` argument without elements is resized to whatever the op gives, and no warning
        said; a kernel that does not resize gets the one given, as large as its placement says.

        Raises:
            Exception: what the op raises.
        """
        if self.outs:
            empty = list(operands)
            for index in self.outs:
                empty[index] = empty[index].new_empty(0)
            try:
                made = self._run(empty, output_shape)
            except Exception:
                return self._run(operands, output_shape)
            if not any(operands[i].numel() and not made.written[i].numel() for i in self.outs):
                return made
        return self._run(operands, output_shape)

    def _run(self, operands: Sequence[torch.Tensor], output_shape: Sequence[int] | None) -> Outcome:
        tensors = list(operands)
        for index in self.written:
            tensors[index] = tensors[index].clone()
        call = self.call_on(tensors, output_shape)
        result = call.op(*call.args, **call.kwargs)
        return Outcome(
            [*outputs_in(result).values()], {index: tensors[index] for index in self.written}
        )

    def call_on(
        self, operands: Sequence[torch.Tensor], output_shape: Sequence[int] | None = None
    ) -> Call:
        """The call that a rank makes which holds these operands; see `run`."""
        call = self.call.on(operands)
        op, args = self._localised(call.args, output_shape)
        return Call(op, args, call.kwargs)

    def _localised(
        self, args: tuple[Any, ...], output_shape: Sequence[int] | None
    ) -> tuple[OpOverload, tuple[Any, ...]]:
        """Global sizes among the arguments as torch rewrites them for one rank."""
        op = self.call.op
        if self._rewrites.squeeze is not None:
            dims = _singletons(self.operands[0].shape, args[1:])
            return self._rewrites.squeeze, (args[0], dims)
        if self._rewrites.positions and output_shape is not None:
            at = self._rewrites.positions[0]
            return op, (*args[:at], list(output_shape), *args[at + 1 :])
        if self._rewrites.adjust_scalars is not None:
            # native_group_norm(input, weight?, bias?, N, C, HxW, ...)
            at = sum(isinstance(a, torch.Tensor) or a is None for a in args)
            n, c, *rest = args[0].shape
            return op, (*args[:at], n, c, torch.Size(rest).numel(), *args[at + 3 :])
        return op, args

    def reason_to_skip(self) -> str | None:
        """Why the call says nothing about a rule; None if it does."""
        if is_uninitialised(self.call.op):
            return "uninitialised output"
        if not self.operands:
            return "no tensor among the arguments"
        if not all(map(is_plain, self.operands)):
            return "operand that is no plain strided tensor"
        return None


def is_uninitialised(op: OpOverload) -> bool:
    """Does it return memory that nobody has written, or that of another tensor?"""
    name: str = _torch.function_schema(op).name.partition("::")[2]
    return name.startswith(_UNINITIALISED)


def expected_of(executable: Executable) -> Outcome:
    """What the op makes of whole tensors.

    Raises:
        Untestable: the call says nothing about a rule: the op is not deterministic, say, or gives
            no plain tensors.
        Exception: what the op raises.
    """
    reason = executable.reason_to_skip()
    if reason is not None:
        raise Untestable(reason)
    outcome = executable.run(executable.operands)
    tensors = [x for x in (*outcome.outputs, *outcome.written.values()) if x is not None]
    if not tensors:
        raise Untestable("no tensor among the outputs")
    if not all(map(is_plain, tensors)):
        raise Untestable("output that is no plain strided tensor")
    is_random = torch.Tag.nondeterministic_seeded in executable.call.op.tags
    for _ in range(_DRAWS if is_random else 1):
        # Elsewhere in memory: some kernels read beyond their operands.
        again = executable.run([operand.clone() for operand in executable.operands])
        repeated = [x for x in (*again.outputs, *again.written.values()) if x is not None]
        if any(not _same_bits(a, b) for a, b in zip(tensors, repeated, strict=True)):
            raise Untestable("random op" if is_random else "not deterministic")
    return outcome


def _same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape:
        return False
    return torch.equal(first, second) or bool(
        ((first == second) | (first.isnan() & second.isnan())).all()
    )


def outputs_in(result: Any) -> dict[str, torch.Tensor | None]:
    """The outputs among what an op returned, lists walked, by what stands behind the result to get
    at them: ``"[0][1]"``."""
    if isinstance(result, torch.Tensor):
        return {"": result}
    if not isinstance(result, (tuple, list)):
        return {}
    found: dict[str, torch.Tensor | None] = {}
    for at, item in enumerate(result):
        if item is None or isinstance(item, torch.Tensor):
            found[f"[{at}]"] = item
        elif isinstance(item, (tuple, list)):
            tensors = enumerate(item)
            found |= {f"[{at}][{k}]": x for k, x in tensors if isinstance(x, torch.Tensor)}
    return found


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
        for argument in _torch.function_schema(op).arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    }


def _operands_of_arguments(call: Call) -> dict[str, list[int]]:
    """Per argument the operands in it: those of a list are placed alike."""
    named = [*zip(traits_of(call.op).arguments, call.args, strict=False), *call.kwargs.items()]
    numbers = itertools.count()
    return {name: [next(numbers) for _ in tensors_in(value)] for name, value in named}
