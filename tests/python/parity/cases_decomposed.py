"""Ops without any rule, which torch propagates by tracing their decomposition.

Each step of the trace is a decision of its own, and with shardprop enabled those go through it too.
"""

from __future__ import annotations

from torch._ops import OpOverload

from .builders import builds
from .dice import Dice
from .schema_args import fill
from .sketch import Problem

OPS = (
    "aten.mse_loss.default",
    "aten.mse_loss_backward.default",
    "aten.smooth_l1_loss.default",
    "aten.huber_loss.default",
    "aten.glu.default",
    "aten.aminmax.default",
    "aten.trace.default",
    "aten.hardswish.default",
    "aten.log_sigmoid_forward.default",
    "aten.rot90.default",
    "aten.addr.default",
    "aten.addmv.default",
    "aten.mv.default",
    "aten.outer.default",
)


@builds(*(f"aten::{name}" for name in ("mse_loss", "smooth_l1_loss", "huber_loss")))
def loss(op: OpOverload, dice: Dice) -> Problem:
    shape = dice.shape(dice.ndim(1, 3), low=1)
    given: dict[str, object] = {"self": dice.tensor(shape), "target": dice.tensor(shape)}
    given["reduction"] = dice.pick((0, 1, 2))
    given |= {n: 1.0 for n in ("beta", "delta") if any(a.name == n for a in op._schema.arguments)}
    return fill(op, dice, given)


@builds("aten::mse_loss_backward")
def loss_backward(op: OpOverload, dice: Dice) -> Problem:
    shape = dice.shape(dice.ndim(1, 3), low=1)
    reduction = dice.pick((0, 1, 2))
    grad = dice.tensor(shape if reduction == 0 else ())
    given = {"grad_output": grad, "self": dice.tensor(shape), "target": dice.tensor(shape)}
    return fill(op, dice, given | {"reduction": reduction})


@builds("aten::glu", "aten::aminmax", "aten::hardswish", "aten::log_sigmoid_forward")
def of_one_tensor(op: OpOverload, dice: Dice) -> Problem:
    shape = [2 * size for size in dice.shape(dice.ndim(1, 3), low=1)]  # glu halves a dim
    return fill(op, dice, {"self": dice.tensor(shape)}, dice.tensor(shape))


@builds("aten::trace", "aten::rot90")
def of_a_matrix(op: OpOverload, dice: Dice) -> Problem:
    matrix = dice.tensor(dice.shape(2, low=1))
    return Problem(op, (matrix,))


@builds("aten::addr", "aten::outer", "aten::mv", "aten::addmv")
def of_vectors(op: OpOverload, dice: Dice) -> Problem:
    m, n = dice.shape(2, low=1)
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "aten::addr": {"self": (m, n), "vec1": (m,), "vec2": (n,)},
        "aten::outer": {"self": (m,), "vec2": (n,)},
        "aten::mv": {"self": (m, n), "vec": (n,)},
        "aten::addmv": {"self": (m,), "mat": (m, n), "vec": (n,)},
    }
    given = {name: dice.tensor(shape) for name, shape in shapes[op._schema.name].items()}
    return fill(op, dice, given, given["self"])
