"""One recorded call of each op, kept in `samples.txt`: recording takes a minute, reading none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from ..parity.opinfo_recorder import RecordedCall
from ..parity.sketch import Sketch, leaves, map_leaves
from .compare import by_meta_tensors
from .contexts import EVERYWHERE

__all__ = ["faults", "has_elements", "read", "write"]

_FILE = Path(__file__).with_name("samples.txt")

_SHORT = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.bool: "b8",
}


def has_elements(call: RecordedCall) -> bool:
    """No operand of it is empty."""
    sketches = leaves(Sketch, (*call.args, *call.kwargs.values()))
    return not any(0 in sketch.shape for sketch in sketches)


def read() -> list[RecordedCall]:
    """The calls, in the order of their ops."""
    names = {short: dtype for dtype, short in _SHORT.items()}
    scope = {
        **names,
        "T": Sketch,
        "torch": torch,
        "device": torch.device,
        "inf": float("inf"),
        "nan": float("nan"),
    }
    calls = []
    for line in _FILE.read_text().splitlines():
        op, args, kwargs = line.split(" | ")
        calls.append(RecordedCall(op, eval(args, scope), eval(kwargs, scope)))
    return calls


def write(by_op: Mapping[str, Iterable[RecordedCall]]) -> None:
    """Of each op the call that is shortest to write, if possible one that meta tensors answer."""
    lines = []
    for _, calls in sorted(by_op.items()):
        written = {_line(call): call for call in calls}
        lines.append(min(written, key=lambda line: (*faults(written[line]), len(line))))
    _FILE.write_text("".join(f"{line}\n" for line in lines))


def faults(call: RecordedCall) -> tuple[bool, bool, bool]:
    """What speaks against keeping a call, the gravest first."""
    shapes = [sketch.shape for sketch in leaves(Sketch, (*call.args, *call.kwargs.values()))]
    refused = by_meta_tensors(call, EVERYWHERE[0]).error is not None
    return refused, not has_elements(call), not any(shapes)


def _line(call: RecordedCall) -> str:
    args, kwargs = map_leaves(Sketch, _Written, call.args), {}
    for name, value in call.kwargs.items():
        kwargs[name] = map_leaves(Sketch, _Written, value)
    return f"{call.op} | {args!r} | {kwargs!r}"


class _Written:
    """A sketch as it stands in the file."""

    def __init__(self, sketch: Sketch) -> None:
        self._sketch = sketch

    def __repr__(self) -> str:
        sketch = self._sketch
        dtype = _SHORT.get(sketch.dtype, str(sketch.dtype))
        given = "" if Sketch(sketch.shape).stride == sketch.stride else f", {sketch.stride}"
        return f"T({sketch.shape}, {dtype}{given})"
