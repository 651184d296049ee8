"""A rule in the notation beside the schema of an op: which argument is which operand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ... import _core
from ..._torch import OpOverload, function_schema
from ..._torch.symbolic_sizes import is_symbolic
from ...errors import ShardpropError
from ...support.console import counted

__all__ = ["Binding", "bind_to_schema"]

_TENSOR = frozenset({"Tensor", "Optional[Tensor]"})
_TENSOR_LIST = frozenset(
    {"List[Tensor]", "List[Optional[Tensor]]", "Optional[List[Tensor]]"},
)
_NAMES_DIMS = frozenset(
    f"{before}{number}{after}"
    for number in ("int", "SymInt")
    for before, after in (("", ""), ("Optional[", "]"), ("List[", "]"), ("Optional[List[", "]]"))
)


@dataclass(frozen=True, slots=True)
class _Argument:
    """One argument of an op, wherever a call has it."""

    name: str
    index: int
    default: Any
    type: str

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.index < len(args):
            return args[self.index]
        return kwargs.get(self.name, self.default)


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a rule's operands, outputs and arguments are in the calls of one op.

    Attributes:
        operands: An argument per operand of the rule; none for a rule without operands.
        arguments: Those that the rule names.
        keepdim: The argument of this name.
        outputs: Per output of the rule its place among the op's returns.
        makes_nothing: The op returns no tensor.
    """

    operands: tuple[_Argument, ...]
    arguments: tuple[_Argument, ...]
    keepdim: _Argument | None
    outputs: tuple[int, ...]

    @property
    def makes_nothing(self) -> bool:
        return not self.outputs

    def read(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], list[Any], bool]:
        """Operands, arguments and keepdim of a call."""
        keepdim = self.keepdim is not None and bool(self.keepdim.of(args, kwargs))
        return (
            [operand.of(args, kwargs) for operand in self.operands],
            [argument.of(args, kwargs) for argument in self.arguments],
            keepdim,
        )

    def name_of(self, term: int) -> str:
        """An operand, or after them an output."""
        count = max(1, len(self.operands))
        if term >= count:
            return f"output {term - count}"
        name = f" ({self.operands[term].name})" if self.operands else ""
        return f"operand {term}{name}"

    def output_shapes(
        self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Sequence[Any]:
        """The shapes that the op makes of meta tensors.

        Raises:
            _core.Unsupported: a size is an expression.
            Exception: what the op raises.
        """
        with torch.no_grad():
            made = op(
                *(_on_meta(arg) for arg in args),
                **{name: _on_meta(arg) for name, arg in kwargs.items()},
            )
        returned = made if len(function_schema(op).returns) > 1 else (made,)
        return [_shapes(returned[index]) for index in self.outputs]


def _on_meta(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and not hasattr(value, "shape"):
        return [_on_meta(item) for item in value]
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return value
    stride = value.stride() if callable(value.stride) else value.stride
    if is_symbolic(value.shape) or is_symbolic(stride):
        raise _core.Unsupported("notation on a symbolic size")
    return torch.empty_strided(value.shape, stride, dtype=value.dtype, device="meta")


def _shapes(made: Any) -> Any:
    if isinstance(made, (list, tuple)):
        return [_shapes(item) for item in made]
    return None if made is None else tuple(made.shape)


# --- checking ---------------------------------------------------------------------------------


def bind_to_schema(pattern: _core.Pattern, op: OpOverload) -> Binding:
    """Finds the rule's operands, outputs and arguments in the schema of an op.

    Raises:
        ShardpropError: they are not there, or of another kind.
    """
    arguments = [
        _Argument(
            given.name,
            index,
            given.default_value if given.has_default_value() else None,
            str(given.real_type),
        )
        for index, given in enumerate(function_schema(op).arguments)
        if not given.is_out
    ]
    tensors = [a for a in arguments if a.type in _TENSOR or a.type in _TENSOR_LIST]
    returns = [
        (index, str(given.type))
        for index, given in enumerate(function_schema(op).returns)
        if str(given.type) in _TENSOR or str(given.type) in _TENSOR_LIST
    ]
    _check_operands(pattern, op, tensors)
    _check_outputs(pattern, op, [kind for _, kind in returns])
    by_name = {argument.name: argument for argument in arguments}
    return Binding(
        tuple(tensors),
        tuple(_named(pattern, op, name, by_name) for name in pattern.arguments),
        by_name.get("keepdim"),
        tuple(index for index, _ in returns),
    )


def _fault(pattern: _core.Pattern, op: OpOverload, where: str, message: str) -> ShardpropError:
    return ShardpropError(f'{op}{where}: {message} The rule is "{pattern.text}".')


def _check_operands(pattern: _core.Pattern, op: OpOverload, tensors: list[_Argument]) -> None:
    kinds = pattern.operands
    if not tensors and kinds == ["scalar"]:
        return
    if len(kinds) != len(tensors):
        names = ", ".join(argument.name for argument in tensors)
        raise _fault(
            pattern,
            op,
            "",
            f"Expected {counted(len(tensors), 'operand')}{f' ({names})' if names else ''}, got "
            f'{len(kinds)}. Write one for every tensor argument of the schema, "_" for a tensor '
            "that is always whole.",
        )
    for index, (kind, argument) in enumerate(zip(kinds, tensors, strict=True)):
        where = f", operand {index} ({argument.name})"
        _check_kind(pattern, op, where, kind, argument.type in _TENSOR_LIST)


def _check_outputs(pattern: _core.Pattern, op: OpOverload, returns: list[str]) -> None:
    kinds = pattern.outputs
    if not returns and kinds == ["scalar"]:
        return
    if len(kinds) != len(returns):
        way_out = (
            "Write one for every tensor that the schema returns."
            if returns
            else 'The op returns no tensor: write nothing after "->".'
        )
        raise _fault(
            pattern,
            op,
            "",
            f"Expected {counted(len(returns), 'output')}, got {len(kinds)}. {way_out}",
        )
    for index, (kind, returned) in enumerate(zip(kinds, returns, strict=True)):
        is_list = returned in _TENSOR_LIST
        # Of a list that is whole nobody would know the length.
        kind = "tensor" if kind == "any" and is_list else kind
        _check_kind(pattern, op, f", output {index}", kind, is_list)


def _check_kind(
    pattern: _core.Pattern, op: OpOverload, where: str, kind: str, is_list: bool
) -> None:
    if is_list and kind not in ("list", "any"):
        message = 'Expected a list of tensors, written "[...]" with the dims of each in brackets, '
        raise _fault(pattern, op, where, message + "got a tensor.")
    if not is_list and kind == "list":
        message = "Expected a tensor, written without brackets, got a list."
        raise _fault(pattern, op, where, message)


def _named(
    pattern: _core.Pattern, op: OpOverload, name: str, by_name: dict[str, _Argument]
) -> _Argument:
    argument = by_name.get(name)
    if argument is not None and argument.type in _NAMES_DIMS:
        return argument
    fit = [a.name for a in by_name.values() if a.type in _NAMES_DIMS]
    got = "no such argument" if argument is None else f"one of type {argument.type}"
    choice = f"one of {', '.join(fit)}" if fit else "but the op has none"
    raise _fault(
        pattern,
        op,
        f', argument "{name}"',
        f"Expected an argument that is an int or a list of ints ({choice}), got {got}.",
    )
