"""What a DTensor, a parameter or a module holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .types import DTensor, DTensorSpec

# What torch.compile's wrapper calls the module in it.
COMPILED_MODULE = "_orig_mod"


def dtensor_of(local_tensor: torch.Tensor, spec: DTensorSpec) -> DTensor:
    """What a rank holds, as a DTensor without a gradient."""
    return DTensor(local_tensor.detach(), spec, requires_grad=False)  # type: ignore[no-untyped-call]


def spec_of(tensor: DTensor) -> DTensorSpec:
    """The spec of a DTensor."""
    return tensor._spec


def local_of(tensor: DTensor) -> torch.Tensor:
    """What this rank holds of a DTensor; to autograd, nothing has been done to it."""
    return tensor._local_tensor


def mark_as_parameter(tensor: torch.Tensor) -> None:
    """Let ``isinstance(tensor, nn.Parameter)`` hold.

    To construct a parameter from a DTensor would detach that, which is an op.
    """
    tensor._is_param = True


def tables_of(module: torch.nn.Module) -> Iterator[dict[str, Any]]:
    """Where a module itself holds its parameters and its buffers, by name."""
    yield module._parameters
    yield module._buffers


def without_compile_wrapper(module: torch.nn.Module) -> torch.nn.Module:
    """The module that ``torch.compile`` wrapped in this one; itself if it is no wrapper."""
    inner: torch.nn.Module = getattr(module, COMPILED_MODULE, module)
    return inner
