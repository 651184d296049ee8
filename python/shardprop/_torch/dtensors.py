"""What a DTensor, a parameter or a module holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from .mesh import coordinate_in
from .op_outputs import wrapped
from .types import DTensor, DTensorSpec, Replicate

# What torch.compile's wrapper calls the module in it.
COMPILED_MODULE = "_orig_mod"


def dtensor_of(local_tensor: torch.Tensor, spec: DTensorSpec) -> DTensor:
    """What a rank holds, as a DTensor without a gradient."""
    return wrapped(local_tensor.detach(), spec)


def spec_of(tensor: DTensor) -> DTensorSpec:
    """The spec of a DTensor."""
    return tensor._spec


def moved_to(tensor: DTensor, spec: DTensorSpec) -> DTensor:
    """The tensor as the spec has it, pending sums too: of those the first rank has the whole."""
    settled = [Replicate() if each.is_partial() else each for each in spec.placements]
    local = local_of(tensor.redistribute(placements=settled))
    coordinate = coordinate_in(spec.mesh)
    if coordinate is not None and any(
        each.is_partial() and coordinate[dim] for dim, each in enumerate(spec.placements)
    ):
        local = torch.zeros_like(local)
    return wrapped(local, spec)


def version_of(tensor: torch.Tensor) -> int:
    """How often the tensor was written into; a DTensor, not what a rank holds of it."""
    return tensor._version


def local_of(tensor: DTensor) -> torch.Tensor:
    """What this rank holds of a DTensor; to autograd, nothing has been done to it."""
    return tensor._local_tensor


def mark_as_parameter(tensor: torch.Tensor) -> None:
    """Let ``isinstance(tensor, nn.Parameter)`` hold.

    To construct a parameter from a DTensor would detach that, which is an op.
    """
    tensor._is_param = True


@contextmanager
def other_tensors(
    modules: Iterable[torch.nn.Module], other: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[None]:
    """In the block each module itself holds other parameters and buffers: what `other` gives."""
    tables: Iterator[dict[str, Any]] = (
        table for module in modules for table in (module._parameters, module._buffers)
    )
    held = [(table, *item) for table in tables for item in table.items() if item[1] is not None]
    try:
        for table, name, tensor in held:
            table[name] = other(tensor)
        yield
    finally:
        for table, name, tensor in held:
            table[name] = tensor


def table_with(module: torch.nn.Module, name: str) -> Mapping[str, Any]:
    """Where a module keeps its parameter or buffer of this name."""
    return module._parameters if name in module._parameters else module._buffers


def without_compile_wrapper(module: torch.nn.Module) -> torch.nn.Module:
    """The module that ``torch.compile`` wrapped in this one; itself if it is no wrapper."""
    inner: torch.nn.Module = getattr(module, COMPILED_MODULE, module)
    return inner
