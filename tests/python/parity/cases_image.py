"""Convolution, pooling, upsampling and grid sampling: tensors of (batch, channels, *image)."""

from __future__ import annotations

import torch
from torch._ops import OpOverload

from .builders import builds
from .dice import Dice
from .schema_args import fill
from .sketch import Problem, Sketch


def _spatial(op: OpOverload) -> int:
    """How many image dims an op takes, from the 1d, 2d or 3d in its name."""
    return next(n for n in (1, 2, 3) if f"{n}d" in op._schema.name)


def _batch(dice: Dice) -> tuple[int, int]:
    return dice.size(low=1, high=256), dice.size(low=1, high=256)


# Convolution --------------------------------------------------------------------------------------


@builds("convolution")
def convolution(op: OpOverload, dice: Dice) -> Problem:
    given, _, channels = _convolution(dice)
    given["bias"] = Sketch((channels,)) if dice.chance(0.5) else None
    return fill(op, dice, given)


@builds("convolution_backward")
def convolution_backward(op: OpOverload, dice: Dice) -> Problem:
    given, output, channels = _convolution(dice)
    given["grad_output"] = Sketch(output)
    biased = dice.wants_output(0.6)
    given["bias_sizes"] = [channels] if biased else None
    # Outputs that are not wanted come back as None.
    given["output_mask"] = [
        *(dice.wants_output() for _ in range(2)),
        biased and dice.wants_output(),
    ]
    return fill(op, dice, given)


def _convolution(dice: Dice) -> tuple[dict[str, object], tuple[int, ...], int]:
    """Arguments shared by both directions, the output's shape and its channels."""
    spatial = dice.pick((1, 2, 2, 3))
    groups = dice.pick((1, 1, 1, 2))
    batch = dice.size(low=1, high=64)
    inside, outside = (groups * dice.size(low=1, high=64) for _ in range(2))
    kernel = dice.pick((1, 3))
    transposed = dice.chance(0.15)
    image = [dice.size(low=3, high=128) for _ in range(spatial)]
    padding = dice.pick((0, 1))
    weight = (inside, outside // groups) if transposed else (outside, inside // groups)
    if transposed:
        result = [size - 1 - 2 * padding + kernel for size in image]
        image = [size if r > 0 else size + 2 for size, r in zip(image, result, strict=True)]
        result = [size - 1 - 2 * padding + kernel for size in image]
    else:
        result = [size + 2 * padding - kernel + 1 for size in image]
    given: dict[str, object] = {
        "input": dice.tensor((batch, inside, *image), dense=True),
        "weight": Sketch((*weight, *[kernel] * spatial)),
        "stride": [1] * spatial,
        "padding": [padding] * spatial,
        "dilation": [1] * spatial,
        "transposed": transposed,
        "output_padding": [0] * spatial,
        "groups": groups,
    }
    return given, (batch, outside, *result), outside


# Upsampling ---------------------------------------------------------------------------------------


@builds("interp_upsample_1out_1in")
def upsample(op: OpOverload, dice: Dice) -> Problem:
    spatial = _spatial(op)
    batch = _batch(dice)
    small = [dice.size(low=1, high=32) for _ in range(spatial)]
    large = [2 * size for size in small]
    given: dict[str, object] = {"output_size": large}
    if "backward" in op._schema.name:
        given |= {"grad_output": Sketch((*batch, *large)), "input_size": [*batch, *small]}
    else:
        given["self"] = dice.tensor((*batch, *small))
    for argument in op._schema.arguments:
        if argument.name.startswith("scales"):
            given[argument.name] = None
    return fill(op, dice, given)


@builds("grid_sampler", "grid_sampler_backward")
def grid_sampler(op: OpOverload, dice: Dice) -> Problem:
    spatial = _spatial(op)
    batch, channels = _batch(dice)
    image, target = ([dice.size(low=1, high=32) for _ in range(spatial)] for _ in range(2))
    given: dict[str, object] = {
        "input": Sketch((batch, channels, *image)),
        "grid": Sketch((batch, *target, spatial)),
        "interpolation_mode": 0,
        "padding_mode": dice.between(0, 1),
    }
    if "backward" in op._schema.name:
        given["grad_output"] = Sketch((batch, channels, *target))
        given["output_mask"] = [dice.wants_output(), dice.wants_output()]
    return fill(op, dice, given)


# Pooling ------------------------------------------------------------------------------------------


@builds("pooling")
@builds(*(f"aten::{name}{n}d" for name in ("avg_pool", "adaptive_avg_pool") for n in (1, 2, 3)))
@builds(*(f"aten::_adaptive_avg_pool{n}d" for n in (2, 3)))
@builds(*(f"aten::adaptive_max_pool{n}d" for n in (1, 2, 3)))
@builds(*(f"aten::fractional_max_pool{n}d" for n in (2, 3)))
@builds(*(f"aten::max_pool{n}d_with_indices" for n in (1, 2, 3)))
def pooling(op: OpOverload, dice: Dice) -> Problem:
    spatial = _spatial(op)
    batch, channels = _batch(dice)
    image = [dice.size(low=4, high=32) for _ in range(spatial)]
    lead = (channels,) if dice.chance(0.2) else (batch, channels)  # images may come alone
    given: dict[str, object] = {"self": dice.tensor((*lead, *image), dense=True)}
    if "adaptive" in op._schema.name:
        given["output_size"] = [2] * spatial
        return fill(op, dice, given)
    given["kernel_size"] = [2] * spatial
    if "fractional" in op._schema.name:
        given["output_size"] = [2] * spatial
        given["self"] = dice.tensor((batch, channels, *image), dense=True)
        given["random_samples"] = Sketch((batch, channels, spatial))
        return fill(op, dice, given)
    given |= {"stride": [2] * spatial, "padding": [0] * spatial, "ceil_mode": dice.chance(0.3)}
    if "avg" in op._schema.name:
        if spatial > 1:
            given["divisor_override"] = None
    else:
        given["dilation"] = [1] * spatial
    return fill(op, dice, given)


@builds("interp_pool_1out_2in")
def unpool(op: OpOverload, dice: Dice) -> Problem:
    spatial = _spatial(op)
    batch, channels = _batch(dice)
    small = [dice.size(low=1, high=16) for _ in range(spatial)]
    pooled = Sketch((batch, channels, *small))
    large = [2 * size for size in small]
    if "backward" in op._schema.name:
        return fill(op, dice, {"grad_output": pooled, "self": Sketch((batch, channels, *large))})
    given: dict[str, object] = {"self": pooled, "output_size": large}
    given["indices"] = Sketch(pooled.shape, torch.int64)
    if spatial == 3:
        given |= {"stride": [2] * 3, "padding": [0] * 3}
    return fill(op, dice, given)


@builds("pool_backward")
def pool_backward(op: OpOverload, dice: Dice) -> Problem:
    shape = _batch(dice) if dice.chance(0.8) else (dice.size(low=1, high=256),)
    small = [dice.size(low=1, high=16) for _ in range(2)]
    pooled = (*shape, *small)
    given: dict[str, object] = {
        "grad_output": Sketch(pooled),
        "self": Sketch((*shape, *[2 * size for size in small])),
        **{"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0], "dilation": [1, 1]},
        "ceil_mode": False,
        "indices": Sketch(pooled, torch.int64),
    }
    return fill(op, dice, given)
