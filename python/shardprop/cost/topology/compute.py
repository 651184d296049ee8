"""How fast a device computes: the part of a topology that prices of ops need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

__all__ = ["ALWAYS_LISTED", "Compute", "is_dtype_name"]

# What every other type comes to at last, so that no type is without a rate.
ALWAYS_LISTED = "float32"

# Where a type has no entry, those of these are asked in turn, and then float32's: types that the
# same units of a device work on at the same rate come first.
_INSTEAD: Mapping[str, tuple[str, ...]] = {
    "bfloat16": ("float16",),
    "float16": ("bfloat16",),
    "float8_e5m2": ("float8_e4m3fn", "bfloat16", "float16"),
    "float8_e4m3fn": ("float8_e5m2", "bfloat16", "float16"),
    "float8_e4m3fnuz": ("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16"),
    "float8_e5m2fnuz": ("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16"),
    "uint8": ("int8",),
    "complex128": ("float64",),
    "complex32": ("float16", "bfloat16"),
}


@dataclass(frozen=True)
class Compute:
    """The rate of matrix products on one device.

    Attributes:
        peak_tflops: By the name of a torch dtype: 1e12 operations a second, a multiplication and
            an addition being two. float32 has to be among them.
        efficiency: The part of the peak that ops reach, above 0 and at most 1. The peak is a bound
            that no kernel passes; what kernels reach has to be measured.
    """

    # Left out of the hash, as mappings have none; equal values still have equal hashes.
    peak_tflops: Mapping[str, float] = field(hash=False)
    efficiency: float = 1.0

    def flops_per_us(self, dtype: torch.dtype) -> float:
        """Operations a microsecond on operands of a type.

        A type without an entry has that of the nearest type with one: bfloat16 and float16 stand
        for each other, float8 types for each other and then the 16-bit ones for them, int8 for
        uint8, float64 for complex128; at last float32, also for the other integers.
        """
        name = str(dtype).removeprefix("torch.")
        listed = (name, *_INSTEAD.get(name, ()), ALWAYS_LISTED)
        peak = next(self.peak_tflops[each] for each in listed if each in self.peak_tflops)
        return peak * 1e6 * self.efficiency


def is_dtype_name(name: object) -> bool:
    """Is it the name that torch itself gives a dtype, such as float32 (not float)?"""
    if not isinstance(name, str):
        return False
    found = getattr(torch, name, None)
    return isinstance(found, torch.dtype) and str(found) == f"torch.{name}"
