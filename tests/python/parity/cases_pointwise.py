"""Pointwise ops: any op whose rule is torch's pointwise one, called from its schema alone.

Which dtypes an op takes, and whether its operands broadcast, is found by trying small fake tensors
once per op.
"""

from __future__ import annotations

import functools
import itertools
import random
from typing import Any

import torch
from torch._ops import OpOverload

from ..quiet import quiet
from .builders import builds, fake_outputs
from .dice import Dice
from .meshes import MeshKey
from .registry import Form, form_of
from .schema_args import fill
from .sketch import Problem, Sketch

# Drawn dtypes of all tensor arguments, with weights; the first is the one to fall back on.
_DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float64, torch.complex64)
_DTYPE_WEIGHTS = (40, 15, 15, 10, 10, 10)
# Dtypes of single arguments of ops that want different ones, such as a mask.
_MIXED = (torch.float32, torch.bool, torch.int64)
_TRIAL = (4, 4)

# Arguments whose value torch reads: they must not be arbitrary numbers.
_FIXED: dict[str, dict[str, object]] = {
    "aten::polygamma": {"n": 1},
    "aten::polygamma_": {"n": 1},
    "aten::mvlgamma": {"p": 1},
    "aten::mvlgamma_": {"p": 1},
}
_FIXED |= {f"aten::{name}": {"alpha": 1} for name in ("celu", "celu_")}
# Overloads that want one of several optional numbers.
_FIXED |= {f"aten::{name}.default": {"min": 0} for name in ("clamp", "clamp_", "clip", "clip_")}


@builds("pointwise")
def pointwise(op: OpOverload, dice: Dice) -> Problem:
    slots = tensor_slots(op)
    shape = dice.shape()
    dtypes = _draw_dtypes(op, dice)
    dense = form_of(op) is not Form.FUNCTIONAL
    given = fixed_arguments(op)
    tensors: list[Sketch] = []
    for i, (slot, dtype) in enumerate(zip(slots, dtypes, strict=True)):
        if str(slot.type).startswith("Optional") and len(tensors) > 1 and dice.chance(0.3):
            continue
        slot_shape = dice.broadcastable(shape)
        if slot_shape != shape and not may_shrink(op, i):
            slot_shape = shape
        tensors.append(dice.tensor(slot_shape, dtype, dense=dense))
        given[slot.name] = tensors[-1]
    return fill(op, dice, given, tensors[0])


def tensor_slots(op: OpOverload) -> list[Any]:
    """Tensor arguments of the schema, without the out ones."""
    return [
        argument
        for argument in op._schema.arguments
        if str(argument.type) in ("Tensor", "Optional[Tensor]") and not argument.is_out
    ]


def fixed_arguments(op: OpOverload) -> dict[str, object]:
    name = op._schema.name
    overload = op._schema.overload_name or "default"
    return dict(_FIXED.get(f"{name}.{overload}", _FIXED.get(name, {})))


def _draw_dtypes(op: OpOverload, dice: Dice) -> tuple[torch.dtype, ...]:
    """Dtypes for the tensor arguments that the op accepts: all alike if possible."""
    count = len(tensor_slots(op))
    drawn = (dice.rng.choices(_DTYPES, _DTYPE_WEIGHTS)[0],) * count
    return drawn if _accepts(op, drawn) else dice.pick(accepted_dtypes(op))


@functools.cache
def accepted_dtypes(op: OpOverload) -> tuple[tuple[torch.dtype, ...], ...]:
    count = len(tensor_slots(op))
    if _accepts(op, (_DTYPES[0],) * count):
        return ((_DTYPES[0],) * count,)
    alike = [(dtype,) * count for dtype in _DTYPES]
    found = [dtypes for dtypes in alike if _accepts(op, dtypes)]
    if not found:
        mixed = itertools.product(_MIXED, repeat=count)
        found = [dtypes for dtypes in mixed if _accepts(op, dtypes)]
    if not found:
        raise NotImplementedError(f"no dtypes found that {op} accepts")
    return tuple(found)


@functools.cache
def may_shrink(op: OpOverload, slot: int) -> bool:
    """Whether a tensor argument may be smaller than the others and be broadcast to them."""
    slots = tensor_slots(op)
    # What is written to has the size of the result; not every fake kernel checks that.
    if len(slots) < 2 or (slot == 0 and op._schema.is_mutable):
        return False
    dtypes = accepted_dtypes(op)[0]
    return all(
        _accepts(op, dtypes, tuple(_TRIAL if i != slot else s for i in range(len(slots))))
        for s in ((1, 4), (4,), ())
    )


def _has_values(op: OpOverload) -> bool:
    """Whether the op takes arguments that are neither tensors nor switches of layout."""
    return any(
        str(argument.type) in ("number", "Optional[number]", "str", "Optional[str]", "float")
        for argument in op._schema.arguments
    )


@functools.cache
def _accepts(
    op: OpOverload,
    dtypes: tuple[torch.dtype, ...],
    shapes: tuple[tuple[int, ...], ...] | None = None,
) -> bool:
    """Whether a fake call with these operands passes, for a few values of the other arguments."""
    given = fixed_arguments(op)
    for i, (slot, dtype) in enumerate(zip(tensor_slots(op), dtypes, strict=True)):
        given[slot.name] = Sketch(shapes[i] if shapes else _TRIAL, dtype)
    about = Sketch(_TRIAL, dtypes[0])
    with quiet():
        for seed in range(4 if _has_values(op) else 1):
            # Seeded by itself: what an op accepts must not depend on when we ask.
            dice = Dice(random.Random(seed), MeshKey((2,)))
            try:
                fake_outputs(fill(op, dice, given, about))
            except Exception:  # any refusal means "not these dtypes"
                return False
    return True
