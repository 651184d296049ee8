"""Rules in the compact notation: ``"*m k, *k n -> m n"`` (docs/notation.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import _core, _torch
from ..._torch import OpOverload, Partial, Replicate
from ...errors import ShardpropError
from ..placeholder import Row, ShardingPlaceholder
from .schema_binding import Binding, bind_to_schema

__all__ = ["Notation"]


class _Cells(dict[Any, Any]):
    """The objects of cells by the core's keys, made once: they are immutable, and rows share them.

    Those that ask something of sizes can be any number, so they are bounded.
    """

    _CAPACITY = 4096
    _FIRST_PARTIAL, _FIRST_PLACEHOLDER = 1, 16

    def __missing__(self, key: Any) -> Any:
        if len(self) >= self._CAPACITY:
            self.clear()
        made = self[key] = self._make(key)
        return made

    def _make(self, key: Any) -> Any:
        if isinstance(key, tuple):
            dim, even, min_local, multiple_of = key
            return ShardingPlaceholder(
                dim, even=even, min_local=min_local or None, multiple_of=multiple_of
            )
        if key >= self._FIRST_PLACEHOLDER:
            return _torch.ShardingPlaceholder(key - self._FIRST_PLACEHOLDER)
        if key >= self._FIRST_PARTIAL:
            return Partial(_torch.REDUCE_OPS[key - self._FIRST_PARTIAL])
        return Replicate()


_CELLS = _Cells()


class Notation:
    """A rule in the notation.

    ``Notation(text).rows`` is a rule function: it takes an op and its arguments, tensors as
    TensorMeta, and lists rows for one mesh dim. Rules are equal if their normalised texts are.

    Args:
        text: The rule.

    Raises:
        ShardpropError: the text is no rule; the message shows where.
    """

    def __init__(self, text: str) -> None:
        self._pattern = _parse(text)
        self._text = self._pattern.text
        # By address, for an overload takes half a microsecond to hash; held, it keeps its own.
        self._bindings: dict[int, tuple[OpOverload, Binding]] = {}

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Notation({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Notation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def check(self, op: OpOverload) -> None:
        """Can the rule be one for this op?

        Raises:
            ShardpropError: it has not as many operands or outputs, or not such ones, or an
                argument that it names is not one that names dims.
        """
        self._binding(op)

    def rows(
        self,
        op: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outputs: Sequence[Any] | None = None,
    ) -> Sequence[Row]:
        """What a mesh dim may do: outputs, then operands; the all-Replicate row is understood.

        Args:
            op: The op.
            args: Its arguments, with a TensorMeta (anything with a shape) for each tensor.
            kwargs: The same.
            outputs: Per output its shape (or its metadata), a list of them for a list, None for an
                output that is not made. Found out on meta tensors where they are needed.

        Raises:
            ShardpropError: the rule does not fit the op or these arguments.
            _core.Unsupported: a size that is an expression would have to be compared.
        """
        call = self._call(op, args, kwargs, outputs)
        try:
            return self._pattern.rows(*call, _CELLS)
        except _core.NotationError as error:
            raise self._does_not_fit(op, error) from None

    def origins(
        self,
        op: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outputs: Sequence[Any] | None = None,
    ) -> list[str]:
        """For each of the `rows` of a call the part of the rule that it follows from: ``"cutting
        k"``, ``"mark +"``, ``"row 0 of those written out"``."""
        return self._pattern.origins(*self._call(op, args, kwargs, outputs))

    def ranks(self, op: OpOverload) -> dict[str, int]:
        """How many dims the rule gives the op's operands, of those where its text tells."""
        named = zip(self._binding(op).operands, self._pattern.ranks, strict=False)
        return {operand.name: rank for operand, rank in named if rank is not None}

    def _call(
        self,
        op: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        outputs: Sequence[Any] | None,
    ) -> tuple[list[Any], list[Any], bool, Sequence[Any] | None]:
        """What the core takes for a call."""
        binding = self._binding(op)
        if binding.makes_nothing:
            outputs = ()
        elif outputs is None and self._pattern.needs_outputs:
            outputs = self._find_outputs(binding, op, args, kwargs)
        return (*binding.read(args, kwargs), outputs)

    def _binding(self, op: OpOverload) -> Binding:
        known = self._bindings.get(id(op))
        if known is None:
            known = self._bindings[id(op)] = (op, bind_to_schema(self._pattern, op))
        return known[1]

    def _does_not_fit(self, op: OpOverload, error: _core.NotationError) -> ShardpropError:
        binding = self._binding(op)
        message, _, term, element = error.args
        where = "" if term is None else f", {binding.name_of(term)}"
        where += "" if element is None else f", element {element}"
        return ShardpropError(f'{op}{where}: {message} The rule is "{self}".')

    def _find_outputs(
        self, binding: Binding, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Sequence[Any]:
        try:
            return binding.output_shapes(op, args, kwargs)
        except _core.Unsupported:
            raise
        except Exception as error:
            raise ShardpropError(
                f'{op}: Expected the shapes of the outputs, which "{self}" needs, from a run on '
                f"meta tensors, got {type(error).__name__}: {error} Give the op a meta kernel, or "
                "write the rule so that the operands tell every size."
            ) from error


def _parse(text: str) -> _core.Pattern:
    """Raises ShardpropError with the place of the fault shown."""
    if not isinstance(text, str):
        raise ShardpropError(f"notation: Expected text, got {type(text).__name__}.")
    foreign = next((i for i, c in enumerate(text) if not (c.isascii() and c != "\0")), None)
    if foreign is not None:
        message = f"Expected letters of ASCII, got {text[foreign]!a}."
        raise ShardpropError(_pointed_at(text, message, foreign))
    try:
        return _core.Pattern(text)
    except _core.NotationError as error:
        message, position, *_ = error.args
        raise ShardpropError(_pointed_at(text, message, position)) from None


def _pointed_at(text: str, message: str, position: int) -> str:
    """The message, the line of the text that it is about, and a caret under the character."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end]
    shown = "".join(c if c.isprintable() else " " for c in line)
    return f"notation: {message}\n    {shown}\n    {' ' * (position - start)}^"
