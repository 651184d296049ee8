"""Is what a registered rule returned a list of rows that fit the call? If not, where not."""

from __future__ import annotations

from collections.abc import Sequence

from .._torch import (
    REDUCE_OPS,
    DTensorSpec,
    OpOverload,
    Partial,
    Placement,
    Shard,
    ShardingPlaceholder,
    StridedShard,
    TensorMeta,
)
from ..errors import ShardpropError
from ..model.operands import Operand

__all__ = ["check_rows"]

_SHARDS = (Shard, StridedShard, ShardingPlaceholder)


def check_rows(
    op: OpOverload,
    rows: object,
    operands: Sequence[Operand],
    outputs: int | None,
    metas: Sequence[TensorMeta | None] | None = None,
) -> None:
    """Check the rows of a rule against the operands of a call.

    Args:
        op: The op, for messages.
        rows: What the rule returned.
        operands: The tensors that the op was given.
        outputs: Cells of a row that are outputs; None where only the call can tell.
        metas: Metadata of the outputs, where it is known; None for one that is absent.

    Raises:
        ShardpropError: it is no list of rows that fit; the message names row and operand.
    """
    if not isinstance(rows, (list, tuple)):
        raise ShardpropError(
            f"{op}: Expected a list of rows from its rule, got {_short(rows)}. Return one list of "
            "placements per row: of the outputs, then of the operands."
        )
    for number, row in enumerate(rows):
        where = f"{op}, row {number}"
        if not isinstance(row, (list, tuple)):
            raise ShardpropError(f"{where}: Expected a list of placements, got {_short(row)}.")
        cells = len(row) - len(operands)
        if cells < 0 or (outputs is not None and cells != outputs):
            raise ShardpropError(_width(where, len(row), operands, outputs))
        for index, cell in enumerate(row[:cells]):
            meta = metas[index] if metas is not None and index < len(metas) else None
            place = f"{where}, output {index}"
            if cell is None:
                if meta is not None:
                    raise ShardpropError(
                        f"{place}: Expected a placement, got None, though the op returns this "
                        "output. None is for an output that is absent."
                    )
                continue
            _check_cell(place, "output", cell, meta)
        for index, (cell, operand) in enumerate(zip(row[cells:], operands, strict=True)):
            place = f"{where}, operand {index} ({operand.name!r})"
            _check_cell(place, "operand", cell, operand.meta)


def _width(where: str, width: int, operands: Sequence[Operand], outputs: int | None) -> str:
    names = ", ".join(repr(operand.name) for operand in operands) or "none"
    made = "its outputs" if outputs is None else f"{outputs} outputs"
    return (
        f"{where}: Expected {made} and {len(operands)} operands ({names}), got {width} placements. "
        "A row has a cell for each tensor that is given; an optional one that is not has none."
    )


def _check_cell(where: str, kind: str, cell: object, meta: TensorMeta | DTensorSpec | None) -> None:
    if not isinstance(cell, (Placement, ShardingPlaceholder)):
        what = _short(cell)
        raise ShardpropError(
            f"{where}: Expected a Placement or a ShardingPlaceholder, got {what}. A tensor that "
            "is whole on every rank is Replicate()."
        )
    if isinstance(cell, _SHARDS):
        _check_dim(where, kind, cell.dim, meta)
    if isinstance(cell, Partial) and cell.reduce_op not in REDUCE_OPS:
        raise ShardpropError(
            f"{where}: Expected a Partial of one of {', '.join(REDUCE_OPS)}, got {cell!r}."
        )


def _check_dim(where: str, kind: str, dim: object, meta: TensorMeta | DTensorSpec | None) -> None:
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise ShardpropError(f"{where}: Expected a tensor dim that is an int, got {dim!r}.")
    dims = None if meta is None else len(meta.shape)
    if dim < 0 or (dims is not None and dim >= dims):
        has = f"of 0 to {dims - 1}" if dims else "of 0 or more" if dims is None else "of none"
        of = "" if dims is None else f", the {kind} having {dims} tensor dims"
        raise ShardpropError(
            f"{where}: Expected a sharding of a tensor dim {has}{of}, got tensor dim {dim}. Dims "
            "are counted from 0; take one given as -1 modulo len(meta.shape)."
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
