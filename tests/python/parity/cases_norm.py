"""Layer, RMS, batch and group norm, forward and backward, with absent weights and outputs."""

from __future__ import annotations

from torch._ops import OpOverload

from .builders import builds
from .dice import Dice
from .schema_args import fill
from .sketch import Problem, Sketch, numel


@builds("layer_norm", "rms_norm")
def layer_norm(op: OpOverload, dice: Dice) -> Problem:
    tensor, normalized = _normalized(dice)
    given = {**_weights(op, normalized, dice), "input": tensor, "eps": 1e-5}
    return fill(op, dice, given | {"normalized_shape": list(normalized)})


@builds("layer_norm_bwd", "rms_norm_bwd")
def layer_norm_backward(op: OpOverload, dice: Dice) -> Problem:
    tensor, normalized = _normalized(dice)
    rows = tensor.shape[: tensor.ndim - len(normalized)] + (1,) * len(normalized)
    given: dict[str, object] = {
        "grad_out": dice.tensor(tensor.shape),
        "input": tensor,
        "normalized_shape": list(normalized),
        "rstd": Sketch(rows),
        **_weights(op, normalized, dice),
    }
    names = _names(op)
    if "mean" in names:
        given["mean"] = Sketch(rows)
    # A mask may drop the gradient of a weight that is there, and ask for one that is not: the first
    # gives an absent output whose rule is not None.
    wanted = ("input", "weight", "bias") if "bias" in names else ("input", "weight")
    given["output_mask"] = [given.get(n) is not None and dice.wants_output() for n in wanted]
    return fill(op, dice, given)


@builds("batch_norm")
def batch_norm(op: OpOverload, dice: Dice) -> Problem:
    tensor = _image(dice)
    channels = Sketch((tensor.shape[1],))
    given: dict[str, object] = {"input": tensor, "eps": 1e-5, "momentum": 0.1}
    names = _names(op)
    # The kernel choice of _batch_norm_with_update does not take None.
    all_there = "with_update" in op._schema.name
    for name in ("weight", "bias"):
        given[name] = channels if all_there or dice.chance(0.7) else None
    for name in ("running_mean", "running_var"):
        if name in names:
            given[name] = channels
    if "training" in names:
        given["training"] = "running_mean" not in names or dice.chance(0.7)
    return fill(op, dice, given)


@builds("batch_norm_backward")
def batch_norm_backward(op: OpOverload, dice: Dice) -> Problem:
    tensor = _image(dice)
    channels = Sketch((tensor.shape[1],))
    training = dice.chance(0.7)
    given: dict[str, object] = {
        "grad_out": Sketch(tensor.shape),
        "input": tensor,
        "weight": channels if dice.wants_output(0.7) else None,
        "running_mean": channels,
        "running_var": channels,
        "save_mean": channels if training else None,
        "save_invstd": channels if training else None,
        "train": training,
        "eps": 1e-5,
        "output_mask": [True, dice.wants_output(), dice.wants_output()],
    }
    return fill(op, dice, given)


@builds("group_norm")
def group_norm(op: OpOverload, dice: Dice) -> Problem:
    tensor = _image(dice)
    batch, channels, *image = tensor.shape
    weight = Sketch((channels,))
    given: dict[str, object] = {
        "input": tensor,
        "weight": weight if dice.chance(0.6) else None,
        "bias": weight if dice.chance(0.6) else None,
        "N": batch,
        "C": channels,
        "HxW": numel(tuple(image)),
        "group": dice.pick([g for g in (1, 2, 4) if channels % g == 0]),
        "eps": 1e-5,
    }
    return fill(op, dice, given)


def _normalized(dice: Dice) -> tuple[Sketch, tuple[int, ...]]:
    tensor = dice.tensor(dice.shape(dice.ndim(1), low=1), dense=True)
    return tensor, tensor.shape[tensor.ndim - dice.between(1, min(2, tensor.ndim)) :]


def _image(dice: Dice) -> Sketch:
    return Sketch(dice.shape(dice.between(2, 4), low=1, high=4096))


def _weights(op: OpOverload, shape: tuple[int, ...], dice: Dice) -> dict[str, object]:
    names = [name for name in ("weight", "bias") if name in _names(op)]
    return {name: Sketch(shape) if dice.wants_output(0.65) else None for name in names}


def _names(op: OpOverload) -> set[str]:
    return {argument.name for argument in op._schema.arguments}
