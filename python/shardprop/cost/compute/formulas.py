"""How many operations an op takes, and on which type: an index of the formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from . import attention, convolution, einsum
from .call import Call

__all__ = ["Formula", "formula_of"]


@dataclass(frozen=True)
class Formula:
    """Operations of a call; a multiplication and an addition are two.

    Attributes:
        count: Of a call.
        operand: The argument whose type the device computes in.
        values: The arguments beside tensors that the count depends on.
    """

    count: Callable[[Call], int]
    operand: str
    values: tuple[str, ...] = ()


def formula_of(name: str) -> Formula | None:
    """The formula of an op by its name, such as ``aten::mm``; None if there is none here."""
    return _FORMULAS.get(name)


def _product(left: str, right: str) -> Formula:
    """[..., m, k] times [..., k, n]: 2 m k n for each matrix."""
    return Formula(
        lambda call: 2 * call.tensor(left).elements * call.tensor(right).shape[-1], operand=left
    )


def _matmul(call: Call) -> int:
    # What is broadcast is multiplied as often as it stands in the output.
    return 2 * call.output().elements * prod(call.tensor("self").shape[-1:])


def _linear(call: Call) -> int:
    return 2 * call.tensor("input").elements * prod(call.tensor("weight").shape[:-1])


_ATTENTION = Formula(attention.forward_flops, "query", ("is_causal",))
_ATTENTION_BACKWARD = Formula(attention.backward_flops, "query", ("is_causal",))
_CONVOLUTION = Formula(convolution.forward_flops, "input", ("transposed",))
_CONVOLUTION_BACKWARD = Formula(convolution.backward_flops, "input", ("transposed", "output_mask"))

_FORMULAS = {
    "aten::mm": _product("self", "mat2"),
    "aten::bmm": _product("self", "mat2"),
    "aten::addmm": _product("mat1", "mat2"),
    "aten::addmm_": _product("mat1", "mat2"),
    "aten::_addmm_activation": _product("mat1", "mat2"),
    "aten::baddbmm": _product("batch1", "batch2"),
    "aten::baddbmm_": _product("batch1", "batch2"),
    "aten::_scaled_mm": _product("self", "mat2"),
    "aten::_scaled_mm_v2": _product("self", "mat2"),
    "aten::_int_mm": _product("self", "mat2"),
    "aten::matmul": Formula(_matmul, "self"),
    "aten::linear": Formula(_linear, "input"),
    "aten::einsum": Formula(einsum.flops, "tensors", ("equation",)),
    "aten::scaled_dot_product_attention": _ATTENTION,
    # It makes all scores and masks them afterwards.
    "aten::_scaled_dot_product_attention_math": Formula(attention.all_pairs_flops, "query"),
    **{
        f"aten::_scaled_dot_product_{kind}": _ATTENTION
        for kind in (
            "flash_attention",
            "flash_attention_for_cpu",
            "efficient_attention",
            "cudnn_attention",
            "fused_attention_overrideable",
        )
    },
    **{
        f"aten::_scaled_dot_product_{kind}_backward": _ATTENTION_BACKWARD
        for kind in (
            "flash_attention",
            "flash_attention_for_cpu",
            "efficient_attention",
            "cudnn_attention",
            "fused_attention_overrideable",
        )
    },
    "aten::convolution": _CONVOLUTION,
    "aten::_convolution": _CONVOLUTION,
    "aten::convolution_overrideable": _CONVOLUTION,
    "aten::convolution_backward": _CONVOLUTION_BACKWARD,
    "aten::convolution_backward_overrideable": _CONVOLUTION_BACKWARD,
}
