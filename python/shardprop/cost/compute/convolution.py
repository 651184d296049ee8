"""Operations of convolutions.

weight [c_out, c_in / groups, *window], or [c_in, c_out / groups, *window] if transposed: each of
its elements is multiplied once for each image and each place that the window is laid on.
"""

from __future__ import annotations

from math import prod

from .call import Call

__all__ = ["backward_flops", "forward_flops"]


def forward_flops(call: Call) -> int:
    """Without the bias."""
    return _pass_flops(call, call.output().shape)


def backward_flops(call: Call) -> int:
    """A pass as forward for each of the gradients of input and weight that is asked for. (torch's
    FlopCounterMode takes the weight's gradient to be that of a convolution without groups.)"""
    mask = call.values["output_mask"]
    return (bool(mask[0]) + bool(mask[1])) * _pass_flops(call, call.tensor("grad_output").shape)


def _pass_flops(call: Call, output: tuple[int, ...]) -> int:
    entry = call.tensor("input").shape
    places = entry[2:] if call.values["transposed"] else output[2:]
    return 2 * entry[0] * prod(places) * call.tensor("weight").elements
