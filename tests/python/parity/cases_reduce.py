"""Reductions, scans, sorts, softmax and losses: one tensor and the dims it is reduced over."""

from __future__ import annotations

import torch
from torch._ops import OpOverload

from .builders import builds
from .dice import Dice
from .schema_args import fill
from .sketch import Problem, Sketch


@builds(
    "linear_reduction",
    "mean",
    "bool_reduction",
    "max_min_dim",
    "argmax_argmin",
    "scan",
    "global_median",
    "dim_reduction_with_indices",
    "cummax_cummin",
    "std_var",
    "sort_default",
    "sort_stable",
    "logsumexp",
    *(
        f"aten::{name}"
        for name in (
            *("sum", "prod", "nansum", "mean", "max", "min", "amax", "amin", "all", "any"),
            *("argmax", "argmin", "cumsum", "cumprod", "logcumsumexp", "median", "nanmedian"),
            *("cummax", "cummin", "std", "var", "var_mean", "sort", "logsumexp"),
        )
    ),
)
def reduction(op: OpOverload, dice: Dice) -> Problem:
    """Any op of one tensor whose other arguments speak of its dims."""
    # A dim of size 0 has no maximum; the sums take it.
    low = 0 if op._schema.name in ("aten::sum", "aten::nansum", "aten::mean") else 1
    tensor = dice.tensor(dice.shape(dice.ndim(1), low), dice.floats())
    given: dict[str, object] = {_first(op): tensor}
    takes_dims = any(a.name == "dim" and "List[int]" in str(a.type) for a in op._schema.arguments)
    if takes_dims and tensor.ndim > 1 and dice.chance(0.5):
        # The defaults reduce everything; what is left of the layout shows with some dims kept.
        dims = dice.sample(tensor.ndim, dice.between(1, tensor.ndim - 1))
        given["dim"] = [dim - tensor.ndim if dice.chance(0.2) else dim for dim in dims]
    return fill(op, dice, given, tensor)


@builds(*(f"prims::{name}.default" for name in ("sum", "prod", "amax", "amin", "var")))
def prim_reduction(op: OpOverload, dice: Dice) -> Problem:
    """prims read their dims as a list and do not fill in defaults."""
    tensor = dice.tensor(dice.shape(dice.ndim(1), low=1))
    dims = sorted(dice.dims(tensor.ndim, low=1))
    args = (tensor, dims, 1.0) if "var" in op._schema.name else (tensor, dims)
    return Problem(op, args)


@builds("kthvalue", "topk", "aten::topk")
def ranked(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(dice.ndim(1), low=2))
    return fill(op, dice, {"self": tensor, "k": dice.between(1, 2)}, tensor)


@builds("vector_norm", "powsum", "aten::linalg_vector_norm", "aten::norm", "aten::linalg__powsum")
def vector_norm(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(dice.ndim(1), low=1))
    orders = (1, 2, 2, 3, 0.5) if "powsum" in op._schema.name else (0, 1, 2, 2, 3, _INF, -_INF)
    name = "p" if op._schema.name == "aten::norm" else "ord"
    given = {"self": tensor, name: dice.pick(orders)}
    if any(argument.name == "dtype" for argument in op._schema.arguments):
        given["dtype"] = None
    return fill(op, dice, given, tensor)


_INF = float("inf")


@builds("histc", "aten::histc")
def histc(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(dice.ndim(1), low=1))
    given: dict[str, object] = {"self": tensor, "bins": dice.pick((8, 100))}
    # With both bounds given, the rule lets the input stay sharded.
    given |= {"min": -1, "max": 2} if dice.chance(0.7) else {"min": 0, "max": 0}
    return fill(op, dice, given, tensor)


@builds("softmax", "aten::_softmax", "aten::_log_softmax", "aten::_safe_softmax")
def softmax(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(dice.ndim(1), low=1))
    given: dict[str, object] = {"self": tensor, "dim": dice.dim(tensor.ndim)}
    if "safe" not in op._schema.name:
        given["half_to_float"] = False
    return fill(op, dice, given, tensor)


@builds("softmax_backward", "aten::_softmax_backward_data", "aten::_log_softmax_backward_data")
def softmax_backward(op: OpOverload, dice: Dice) -> Problem:
    shape = dice.shape(dice.ndim(1), low=1)
    given = {
        "grad_output": dice.tensor(shape),
        "output": dice.tensor(shape),
        "dim": dice.dim(len(shape)),
        "input_dtype": torch.float32,
    }
    return fill(op, dice, given)


@builds("nll_loss_forward", "aten::nll_loss_forward", "aten::nll_loss2d_forward")
def nll_loss_forward(op: OpOverload, dice: Dice) -> Problem:
    given, _ = _nll(op, dice)
    return fill(op, dice, given)


@builds("nll_loss_backward", "aten::nll_loss_backward", "aten::nll_loss2d_backward")
def nll_loss_backward(op: OpOverload, dice: Dice) -> Problem:
    given, target = _nll(op, dice)
    reduced = given["reduction"] != 0
    given["grad_output"] = dice.tensor(() if reduced else target.shape, dense=True)
    given["total_weight"] = Sketch(())
    return fill(op, dice, given)


def _nll(op: OpOverload, dice: Dice) -> tuple[dict[str, object], Sketch]:
    """Logits with the class dim second, as many targets as there are rows."""
    classes = dice.size(high=1024)
    batch = dice.size() if dice.chance(0.4) else dice.even()
    image = tuple(dice.even() for _ in range(2)) if "2d" in op._schema.name else ()
    target = Sketch((batch, *image), torch.int64)
    given: dict[str, object] = {
        "self": dice.tensor((batch, classes, *image), dense=True),
        "target": target,
        "weight": Sketch((classes,)) if dice.chance(0.4) else None,
        "reduction": dice.pick((0, 1, 2)),
        "ignore_index": -100,
    }
    return given, target


def _first(op: OpOverload) -> str:
    return str(op._schema.arguments[0].name)
