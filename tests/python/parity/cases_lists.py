"""Ops over lists of tensors: `_foreach_*`, `_amp_foreach_*` and the fused optimizers."""

from __future__ import annotations

import functools
from dataclasses import replace

import torch
from torch._ops import OpOverload

from ..quiet import quiet
from .builders import builds, fake_outputs
from .dice import Dice
from .schema_args import fill
from .sketch import Problem, Sketch

# Fused optimizers read their step counters from a mesh of their own (different_mesh_args).
_STEPS = "state_steps"


@builds("list")
def foreach(op: OpOverload, dice: Dice) -> Problem:
    """One shape per list position, shared by all lists; positions repeat, as parameters do."""
    length = dice.pick((1, 2, 2, 3, 3, 4))
    shapes = [dice.shape(dice.pick((1, 2, 2, 3))) for _ in range(length)]
    for i in range(1, length):
        if dice.chance(0.35):
            shapes[i] = shapes[dice.between(0, i - 1)]
    dtype = dice.pick(_dtypes(op))
    return fill(op, dice, _arguments(op, shapes, dtype, dice), Sketch(shapes[0], dtype))


@builds("aten::_foreach_mm")
def foreach_mm(op: OpOverload, dice: Dice) -> Problem:
    sizes = [dice.shape(3, low=1) for _ in range(dice.between(1, 3))]
    left = [dice.tensor((m, k)) for m, k, _ in sizes]
    right = [dice.tensor((k, n)) for _, k, n in sizes]
    return fill(op, dice, {"self": left, "mat2": right})


@builds("aten::_fused_adam", "aten::_fused_adam_", "aten::_fused_adamw", "aten::_fused_adamw_")
def fused_adam(op: OpOverload, dice: Dice) -> Problem:
    shapes = [dice.shape(dice.pick((1, 2))) for _ in range(dice.pick((1, 2, 3)))]
    if len(shapes) > 1 and dice.chance(0.4):
        shapes[-1] = shapes[0]
    amsgrad = dice.chance(0.3)

    def like_params() -> list[Sketch]:
        return [dice.tensor(shape, dense=True) for shape in shapes]

    given: dict[str, object] = {
        name: like_params() for name in ("self", "grads", "exp_avgs", "exp_avg_sqs")
    }
    given["max_exp_avg_sqs"] = like_params() if amsgrad else []
    given[_STEPS] = [Sketch(()) for _ in shapes]
    given |= {"beta1": 0.9, "beta2": 0.999, "weight_decay": 0.01, "eps": 1e-8}
    given |= {"amsgrad": amsgrad, "maximize": dice.chance(0.2)}
    given["lr"] = Sketch(()) if op._schema.overload_name == "tensor_lr" else 1e-3
    for name in ("grad_scale", "found_inf"):
        given[name] = Sketch((1,)) if dice.chance(0.15) else None
    names = [argument.name for argument in op._schema.arguments]
    return replace(fill(op, dice, given), foreign=(names.index(_STEPS),))


def _arguments(
    op: OpOverload, shapes: list[tuple[int, ...]], dtype: torch.dtype, dice: Dice | None = None
) -> dict[str, object]:
    given: dict[str, object] = {}
    for argument in op._schema.arguments:
        if argument.is_out:
            continue
        match str(argument.type):
            case "List[Tensor]":
                given[argument.name] = [
                    dice.tensor(shape, dtype, dense=True) if dice else Sketch(shape, dtype)
                    for shape in shapes
                ]
            case "List[number]":
                given[argument.name] = [1 + i for i in range(len(shapes))]
            case "Tensor" if argument.name == "scalars":  # addcdiv_: one scalar per position
                given[argument.name] = Sketch((len(shapes),), dtype)
            case "Tensor" if argument.name in ("found_inf", "inv_scale"):
                given[argument.name] = Sketch((1,))
            case "Tensor":
                given[argument.name] = Sketch((), dtype)
    return given


@functools.cache
def _dtypes(op: OpOverload) -> tuple[torch.dtype, ...]:
    found = []
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        shapes = [(4, 4), (3,)]
        try:
            with quiet():
                given = _arguments(op, shapes, dtype)
                dice = _fixed_dice()
                fake_outputs(fill(op, dice, given, Sketch(shapes[0], dtype)))
            found.append(dtype)
        except Exception:  # any refusal means "not this dtype"
            continue
    if not found:
        raise NotImplementedError(f"no dtype found that {op} accepts")
    return (found[0], *found)


def _fixed_dice() -> Dice:
    import random

    from .meshes import MeshKey

    return Dice(random.Random(1), MeshKey((2,)))
