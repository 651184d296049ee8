"""Matrix products, attention and the small ops torch registers beside them."""

from __future__ import annotations

import torch
from torch._ops import OpOverload

from .builders import builds
from .dice import Dice
from .schema_args import fill
from .sketch import Problem, Sketch


@builds("mm")
def mm(op: OpOverload, dice: Dice) -> Problem:
    m, k, n = dice.shape(3)
    dtype = dice.floats()
    return fill(op, dice, {"self": dice.tensor((m, k), dtype), "mat2": dice.tensor((k, n), dtype)})


@builds("addmm")
def addmm(op: OpOverload, dice: Dice) -> Problem:
    m, k, n = dice.shape(3)
    bias = (m, n) if op._schema.is_mutable else dice.pick(((m, n), (n,), (n,), (1, n), (m, 1), ()))
    given = {"self": dice.tensor(bias, dense=True), "mat1": dice.tensor((m, k))}
    given["mat2"] = dice.tensor((k, n))
    return fill(op, dice, given, given["self"])


@builds("bmm")
def bmm(op: OpOverload, dice: Dice) -> Problem:
    b, m, k, n = dice.shape(4)
    return fill(op, dice, {"self": dice.tensor((b, m, k)), "mat2": dice.tensor((b, k, n))})


@builds("baddbmm")
def baddbmm(op: OpOverload, dice: Dice) -> Problem:
    b, m, k, n = dice.shape(4)
    bias: tuple[int, ...] = (b, m, n)
    if not op._schema.is_mutable:
        bias = dice.pick((bias, bias, (1, m, n), (m, n), (b, 1, n)))
    given = {"self": dice.tensor(bias, dense=True), "batch1": dice.tensor((b, m, k))}
    given["batch2"] = dice.tensor((b, k, n))
    return fill(op, dice, given, given["self"])


@builds("dot", "aten::dot")
def dot(op: OpOverload, dice: Dice) -> Problem:
    shape = dice.shape(1)
    return fill(op, dice, {"self": Sketch(shape), "tensor": Sketch(shape)})


@builds("scaled_mm")
def scaled_mm(op: OpOverload, dice: Dice) -> Problem:
    """fp8 operands, the second one column-major, scales per tensor or per row and column."""
    m, k, n = (16 * dice.size(high=64) for _ in range(3))
    rowwise = dice.chance(0.4)
    fp8 = torch.float8_e4m3fn
    given: dict[str, object] = {
        "self": Sketch((m, k), fp8),
        "mat2": Sketch((k, n), fp8, (1, k)),
        "scale_a": Sketch((m, 1) if rowwise else dice.pick(((), (1,)))),
        "scale_b": Sketch((1, n) if rowwise else ()),
        "bias": None,
        "scale_result": None,
        # torch's rule reads arguments 4 and 5, so something after them has to be given.
        "out_dtype": torch.bfloat16,
        "use_fast_accum": dice.chance(0.3),
    }
    return fill(op, dice, given)


@builds("grouped_mm", "aten::_grouped_mm")
def grouped_mm(op: OpOverload, dice: Dice) -> Problem:
    """bf16 with 16-byte aligned rows; what `offs` cuts into groups has no dim for them."""
    groups = dice.pick((1, 2, 4, 8))
    m, k, n = (16 * dice.size(high=64) for _ in range(3))
    bf16 = torch.bfloat16
    ragged = dice.pick(("", "", "left", "left", "right", "both"))
    left = Sketch((m, k) if ragged in ("left", "both") else (groups, m, k), bf16)
    right = Sketch((groups, k, n), bf16, (k * n, 1, k))
    if ragged in ("right", "both"):
        right = Sketch((k, n), bf16, (1, k))
    offsets = Sketch((groups,), torch.int32) if ragged else None
    given = {"self": left, "mat2": right, "offs": offsets, "bias": None, "out_dtype": None}
    return fill(op, dice, given)


@builds("constant_pad_nd")
def constant_pad_nd(op: OpOverload, dice: Dice) -> Problem:
    tensor = dice.tensor(dice.shape(dice.ndim(1), low=1))
    dims = dice.between(1, tensor.ndim)
    pad = [dice.pick((0, 0, 1, 2)) for _ in range(2 * dims)]
    return fill(op, dice, {"self": tensor, "pad": pad, "value": dice.pick((0, 0, 1, 0.5))})


# Attention ----------------------------------------------------------------------------------------

_FAMILIES = ("flash", "efficient", "cudnn")


@builds(*(f"scaled_dot_product_{kind}_attention" for kind in _FAMILIES))
@builds(*(f"aten::_scaled_dot_product_{kind}_attention" for kind in _FAMILIES))
def attention(op: OpOverload, dice: Dice) -> Problem:
    query, key, value = _heads(dice)
    given: dict[str, object] = {"query": query, "key": key, "value": value, "dropout_p": 0.0}
    names = {argument.name for argument in op._schema.arguments}
    if "attn_bias" in names:
        given["attn_bias"] = _bias(op, query, key, dice)
        given["compute_log_sumexp"] = dice.chance(0.7)
    if "return_debug_mask" in names:
        given["return_debug_mask"] = dice.chance(0.3)
    return fill(op, dice, given)


@builds(*(f"scaled_dot_product_{kind}_attention_backward" for kind in _FAMILIES))
@builds(*(f"aten::_scaled_dot_product_{kind}_attention_backward" for kind in _FAMILIES))
def attention_backward(op: OpOverload, dice: Dice) -> Problem:
    query, key, value = _heads(dice)
    batch, heads, length, _ = query.shape
    out = Sketch((batch, heads, length, value.shape[3]), query.dtype)
    seed = Sketch((), torch.int64)
    values: dict[str, object] = {
        **{"grad_out": out, "grad_out_": out, "out": out},
        **{"query": query, "key": key, "value": value},
        "logsumexp": Sketch((batch, heads, length)),
        **{"cum_seq_q": None, "cum_seq_k": None, "max_q": length, "max_k": key.shape[2]},
        **{"philox_seed": seed, "philox_offset": seed, "attn_bias": None},
        **{"dropout_p": 0.0, "scale": None},
    }
    names = {argument.name for argument in op._schema.arguments}
    given = {name: value for name, value in values.items() if name in names}
    if "attn_bias" in names:
        given["attn_bias"] = _bias(op, query, key, dice)
    if "grad_input_mask" in names:
        wants_bias = given["attn_bias"] is not None and dice.chance(0.5)
        given["grad_input_mask"] = [True, True, True, wants_bias]
    return fill(op, dice, given)


def _bias(op: OpOverload, query: Sketch, key: Sketch, dice: Dice) -> Sketch | None:
    # torch 2.13's strategies for cuDNN do not count the bias, and fail when there is one.
    if dice.chance(0.95 if "cudnn" in op._schema.name else 0.6):
        return None
    lead = dice.pick((query.shape[:2], query.shape[:2], (1, query.shape[1]), (1, 1)))
    return Sketch((*lead, query.shape[2], key.shape[2]), query.dtype)


def _heads(dice: Dice) -> tuple[Sketch, Sketch, Sketch]:
    batch, heads = dice.size(high=64), dice.size(high=64)
    query, keys = dice.size(low=1, high=256), dice.size(low=1, high=256)
    width = dice.pick((8, 16, 64))
    dtype = torch.bfloat16
    shapes = ((batch, heads, length, width) for length in (query, keys, keys))
    first, second, third = (Sketch(shape, dtype) for shape in shapes)
    return first, second, third
