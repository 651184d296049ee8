"""A finding as a script: the op on every rank against the op on whole tensors.

The script holds the tensors as literals and the source of `alone`, so that it needs nothing but
torch, and what defines the op where that is not torch's own, and says the same wherever it is run.
"""

from __future__ import annotations

import inspect
import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from ..._torch import (
    OpOverload,
    Partial,
    Placement,
    Replicate,
    Shard,
    StridedShard,
    function_schema,
)
from ...model.op_traits import op_facts
from . import standalone_check
from .calls import Call

__all__ = ["DEFINE_HERE", "Row", "script"]

# Outputs and inputs of one mesh dim; None for an output that is no tensor.
Row = tuple[Sequence[Placement | None], Sequence[Placement]]

# Stands in the script of an op that is not torch's own, to be replaced by what defines the op.
DEFINE_HERE = "# Import here what defines the op."

# Elements that are written out; more of them are bytes.
_READABLE = 600


def script(call: Call, rows: Sequence[Row], mesh: Sequence[int], seed: int = 0) -> str:
    """A script that ends with 1 and a message if `rows` give other values than the whole op.

    Args:
        call: The call on whole tensors.
        rows: The outputs and inputs of each mesh dim.
        mesh: The sizes of the mesh dims.
        seed: Of the random parts of pending sums and the like.

    Returns:
        The script; "" where it cannot be written: an argument that has no literal (a generator),
        or a placement of which torch alone does not tell what it holds (a masked partial, a sum of
        flags).
    """
    try:
        outputs = [_layout(cells) for cells in zip(*(row[0] for row in rows), strict=True)]
        inputs = [_layout(cells) for cells in zip(*(row[1] for row in rows), strict=True)]
        if any(map(_is_sum_of_flags, call.tensors, inputs)):
            return ""
        args, kwargs = _literal(call.args), _literal(call.kwargs)
        size_argument = _size_argument(call.op)
    except _Unwritable:
        return ""
    is_torchs = call.op.namespace in ("aten", "prims")
    needed = "torch alone" if is_torchs else "torch and the module that defines the op"
    if not function_schema(call.op).returns:  # what it has written into is laid out as it was
        outputs = _in_order(call, inputs)
    elif len(outputs) == 1:
        outputs *= _count_results(call)
    parts = [
        f'"""{call.op} under {_title(rows)} on a mesh of {" x ".join(map(str, mesh))} ranks.',
        "",
        f"Written by `shardprop validate`; needs {needed}.",
        "Ends with 1 and a message if the ranks together have other values than the op on whole",
        'tensors."""',
        "",
        _source_of_alone(),
        "",
        *([] if is_torchs else [DEFINE_HERE, ""]),
        "nan, inf = math.nan, math.inf",
        f"OP = torch.ops.{call.op}",
        f"ARGS = {args}",
        f"KWARGS = {kwargs}",
        f"OPERANDS = {_in_order(call, inputs)!r}",
        f"OUTPUTS = {outputs!r}",
        "",
        "if __name__ == '__main__':",
        f"    message = check(OP, ARGS, KWARGS, OPERANDS, OUTPUTS, {tuple(mesh)!r}, {seed}, "
        f"{size_argument})",
        "    print(message or 'The ranks together have the values of the op on whole tensors.')",
        "    raise SystemExit(1 if message else 0)",
        "",
    ]
    return "\n".join(parts)


class _Unwritable(Exception):
    """Something that has no literal."""


def _layout(cells: Sequence[Placement | None]) -> list[tuple[object, ...]] | None:
    return None if any(cell is None for cell in cells) else [_written(cell) for cell in cells]


def _written(placement: Placement | None) -> tuple[object, ...]:
    if isinstance(placement, StridedShard):
        return ("SS", placement.dim, int(placement.split_factor))
    if isinstance(placement, Shard):
        return ("S", placement.dim)
    if isinstance(placement, Replicate):
        return ("R",)
    if type(placement) is Partial:
        return ("P", placement.reduce_op)
    raise _Unwritable


def _is_sum_of_flags(tensor: torch.Tensor, layout: Sequence[Any] | None) -> bool:
    arithmetic = [("P", "sum"), ("P", "avg"), ("P", "product")]
    return tensor.dtype == torch.bool and any(cell in arithmetic for cell in layout or ())


def _size_argument(op: OpOverload) -> int | None:
    positions = op_facts(op).rewrites.positions
    if len(positions) > 1:  # a stride as well: what it is on a rank is torch's to say
        raise _Unwritable
    return positions[0] if positions else None


def _count_results(call: Call) -> int:
    """How many tensors the op gives; a row may have one output for a whole list."""
    if not any(
        isinstance(result.type, torch.ListType) for result in function_schema(call.op).returns
    ):
        return 1
    tensors = [
        tensor.detach().clone() for tensor in standalone_check.walk((call.args, call.kwargs))
    ]
    return len(standalone_check.run(call.op, call.args, call.kwargs, tensors))


def _in_order(call: Call, inputs: Sequence[Any]) -> list[Any]:
    """The layouts as the script meets the tensors, which may order dicts differently."""
    by_id: dict[int, deque[Any]] = {}
    for tensor, layout in zip(call.tensors, inputs, strict=True):
        by_id.setdefault(id(tensor), deque()).append(layout)
    return [
        by_id[id(tensor)].popleft() for tensor in standalone_check.walk((call.args, call.kwargs))
    ]


def _source_of_alone() -> str:
    source = inspect.getsource(standalone_check)
    return source[source.index("import functools") :]


def _title(rows: Sequence[Row]) -> str:
    return "; ".join(
        f"{', '.join(map(_short, inputs))} -> {', '.join(map(_short, outputs))}"
        for outputs, inputs in rows
    )


def _short(placement: Placement | None) -> str:
    return "none" if placement is None else str(placement)


def _literal(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, tuple):
        return f"({''.join(_literal(item) + ', ' for item in value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name!r}: {_literal(item)}' for name, item in value.items())}}}"
    if isinstance(value, torch.device):
        return f"torch.{value!r}" if not repr(value).startswith("torch.") else repr(value)
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value)  # nan and inf are names in the script
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    raise _Unwritable


def _tensor(tensor: torch.Tensor) -> str:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise _Unwritable
    plain = tensor.detach().contiguous()
    dtype, shape = str(plain.dtype), tuple(plain.shape)
    if plain.numel() == 0:
        text = f"torch.empty({shape}, dtype={dtype})"
    elif plain.numel() <= _READABLE:
        text = f"torch.tensor({plain.tolist()!r}, dtype={dtype})"
    else:
        data = bytes(plain.flatten().view(torch.uint8).tolist()).hex()
        text = (
            f"torch.frombuffer(bytearray.fromhex({data!r}), dtype={dtype}).reshape({shape}).clone()"
        )
    is_expanded = 0 in tensor.stride() or tensor.numel() == 0
    if is_expanded or tensor.is_contiguous() or not math.prod(shape):
        return text
    return f"torch.empty_strided({shape}, {tensor.stride()}, dtype={dtype}).copy_({text})"
