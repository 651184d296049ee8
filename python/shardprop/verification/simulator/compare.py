"""Is a tensor what it should be, up to the rounding of another order of the same sums?"""

from __future__ import annotations

import math

import torch

__all__ = ["difference", "is_rounded", "largest", "tolerance"]

# Of the largest element. Another order of a reduction costs about the root of its length in units
# of the last place; a wrong row is off by about the elements themselves.
_RELATIVE = {
    torch.float64: 1e-9,
    torch.float32: 5e-5,
    torch.float16: 2e-2,
    torch.bfloat16: 8e-2,
    torch.complex128: 1e-9,
    torch.complex64: 5e-5,
    torch.complex32: 2e-2,
}
_COARSEST = 0.3  # the floats of eight bits


def largest(tensor: torch.Tensor) -> float:
    """The absolute value of the largest finite element; 0 of exact dtypes and without elements."""
    if not is_rounded(tensor.dtype) or not tensor.numel():
        return 0.0
    size = tensor.detach().abs()
    size = size if size.dtype.itemsize > 2 else size.float()
    most = float(size.max())
    if most == most and most != float("inf"):
        return most
    return float(torch.where(size.isfinite(), size, 0).max())


def tolerance(dtype: torch.dtype, scale: float) -> float:
    """How far two elements may be apart; 0 for exact dtypes."""
    return _RELATIVE.get(dtype, _COARSEST) * scale if is_rounded(dtype) else 0.0


def difference(got: torch.Tensor, expected: torch.Tensor, scale: float) -> str | None:
    """What tells two tensors apart; None if nothing does.

    Args:
        got: What the ranks made.
        expected: What the op makes of the whole tensors.
        scale: The largest element of them, and of what was summed on the way.
    """
    if got.shape != expected.shape:
        return f"shape {list(got.shape)} instead of {list(expected.shape)}"
    if got.dtype != expected.dtype:
        return f"dtype {got.dtype} instead of {expected.dtype}"
    if torch.equal(got, expected):
        return None
    if not is_rounded(expected.dtype):
        wrong = got != expected
        return f"{int(wrong.sum())} of {wrong.numel()} elements differ"
    allowed = tolerance(expected.dtype, scale)
    if expected.dtype.itemsize < 4:
        got, expected = got.float(), expected.float()
    most = float((got - expected).abs().max())
    if most <= allowed:
        return None
    if math.isfinite(most):
        return f"off by {most:.3g} (tolerance {allowed:.1g})"
    return _difference_of_some(got, expected, allowed)


def is_rounded(dtype: torch.dtype) -> bool:
    """Floats, real and complex."""
    return dtype.is_floating_point or dtype.is_complex


def _difference_of_some(got: torch.Tensor, expected: torch.Tensor, allowed: float) -> str | None:
    """The same where some elements are not finite: those have to be in the same places."""
    if expected.dtype.is_complex:
        got, expected = (torch.view_as_real(x.resolve_conj()) for x in (got, expected))
    close = (got - expected).abs() <= allowed
    right = close | (got == expected) | (got.isnan() & expected.isnan())
    wrong = int((~right).sum())
    return f"{wrong} of {right.numel()} elements differ" if wrong else None
