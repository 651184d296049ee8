"""Many calls at once, as arrays of local shapes with a row for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ShardpropError
from .call import Call, Operand

__all__ = ["Rows"]

Shape = tuple[int, ...]


class Rows:
    """Local shapes of S calls of one op.

    Args:
        op: For messages.
        operand_shapes: For each tensor operand [S, ndim] integers of at least 0.
        output_shapes: Likewise for each output; None where it is absent.

    Raises:
        ShardpropError: the arrays are not of such shapes, or there is none.

    Attributes:
        count: S.
        which: [S], for each call the number of its shapes in `distinct`.
    """

    def __init__(
        self,
        op: object,
        operand_shapes: Sequence[NDArray[np.integer[Any]]],
        output_shapes: Sequence[NDArray[np.integer[Any]] | None],
    ) -> None:
        self._op = op
        self._operands = [
            self._array(f"operand_shapes[{n}]", shapes) for n, shapes in enumerate(operand_shapes)
        ]
        self._outputs = [
            None if shapes is None else self._array(f"output_shapes[{n}]", shapes)
            for n, shapes in enumerate(output_shapes)
        ]
        arrays = [*self._operands, *(shapes for shapes in self._outputs if shapes is not None)]
        counts = sorted({len(shapes) for shapes in arrays})
        if len(counts) != 1:
            raise ShardpropError(
                f"{op}: Expected arrays of shapes with one number of rows, got "
                f"{' and '.join(map(str, counts)) or 'no array'}."
            )
        self.count = counts[0]
        self.which, self._first = _numbered(arrays, self.count)

    def _array(self, name: str, shapes: object) -> NDArray[np.integer[Any]]:
        if (
            not isinstance(shapes, np.ndarray)
            or shapes.ndim != 2
            or not np.issubdtype(shapes.dtype, np.integer)
        ):
            got = f"{shapes.dtype} {shapes.shape}" if isinstance(shapes, np.ndarray) else shapes
            raise ShardpropError(
                f"{self._op}: {name}: Expected an array of integers [rows, ndim], got {got!r}."
            )
        if shapes.size and shapes.min() < 0:
            raise ShardpropError(
                f"{self._op}: {name}: Expected sizes of at least 0, got {shapes.min()}."
            )
        return shapes

    def fit(self, call: Call, *, outputs_given: bool) -> Call:
        """The call that the rows are of, with outputs of the first operand's dtype if none are
        given.

        Raises:
            ShardpropError: its tensors are others than those of the arrays.
        """
        if not outputs_given:
            call = replace(call, outputs=tuple(self._assumed_outputs(call)))
        dims = [len(operand.shape) for operand in call.tensors]
        if [shapes.shape[1] for shapes in self._operands] != dims:
            raise ShardpropError(
                f"{self._op}: operand_shapes: Expected arrays for tensors of {dims} dims, got "
                f"{[shapes.shape[1] for shapes in self._operands]}."
            )
        out_dims = [None if output is None else len(output.shape) for output in call.outputs]
        given = [None if shapes is None else shapes.shape[1] for shapes in self._outputs]
        if given != out_dims:
            raise ShardpropError(
                f"{self._op}: output_shapes: Expected arrays for outputs of {out_dims} dims, got "
                f"{given}."
            )
        return call

    def _assumed_outputs(self, call: Call) -> Iterator[Operand | None]:
        for number, shapes in enumerate(self._outputs):
            if shapes is None:
                yield None
                continue
            if not call.tensors:
                raise ShardpropError(
                    f"{self._op}: output_shapes[{number}]: Expected outputs of an op without "
                    "tensor operands to be given for their dtypes, got none."
                )
            ndim = shapes.shape[1]
            yield Operand((0,) * ndim, call.tensors[0].dtype, (False,) * ndim, True)

    def distinct(self) -> Iterator[tuple[list[Shape], list[Shape | None]]]:
        """The shapes of operands and of outputs, each combination once."""
        for row in self._first:
            operands = [_shape(shapes[row]) for shapes in self._operands]
            outputs = [None if s is None else _shape(s[row]) for s in self._outputs]
            yield operands, outputs


def _numbered(
    arrays: Sequence[NDArray[np.integer[Any]]], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each row the number of its kind, and for each kind its first row.

    Column by column: ``np.unique(axis=0)`` compares whole rows, which takes three times as long for
    thousands of them.
    """
    kinds = np.zeros(count, dtype=np.int64)
    for column in (column for array in arrays for column in array.T):
        values, numbers = np.unique(column, return_inverse=True)
        if len(values) > 1:
            kinds = np.unique(kinds * len(values) + numbers, return_inverse=True)[1]
    _, first, kinds = np.unique(kinds, return_index=True, return_inverse=True)
    return kinds, first


def _shape(row: NDArray[np.integer[Any]]) -> Shape:
    return tuple(row.tolist())
