"""Which ops there are, and which kernels they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import FunctionSchema
from torch._decomp import decomposition_table
from torch._library import custom_ops as _custom_ops
from torch._library.simple_registry import singleton as _custom_kernels
from torch._library.utils import can_generate_trivial_fake_impl

from .types import OpOverload


def all_ops() -> Iterator[OpOverload]:
    """Every overload that the dispatcher knows."""
    for name in torch._C._dispatch_get_all_op_names():
        qualified, _, overload = name.partition(".")
        namespace, _, packet = qualified.partition("::")
        found = getattr(getattr(torch.ops, namespace), packet)
        yield getattr(found, overload or "default")


def function_schema(op: OpOverload) -> FunctionSchema:
    """The names, types and aliases of an op's arguments and returns, as it was declared."""
    return op._schema


def comes_apart_above(op: OpOverload) -> bool:
    """Is the op composite, so that autograd takes it apart before DTensor sees it?

    In inference mode there is no autograd, and DTensor gets the op whole.
    """
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = op.name()  # type: ignore[no-untyped-call]
    key = torch._C.DispatchKey
    is_composite = has_kernel(name, key.CompositeImplicitAutograd)
    return is_composite and not (has_kernel(name, key.CPU) or has_kernel(name, key.CUDA))


def has_derivative(op: OpOverload) -> bool:
    """Has autograd a kernel for the op, or takes it apart? Of another one it sees on plain tensors
    what its kernel calls, and on DTensors nothing."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = op.name()  # type: ignore[no-untyped-call]
    key = torch._C.DispatchKey
    return any(
        has_kernel(name, each)
        for each in (key.Autograd, key.AutogradCPU, key.CompositeImplicitAutograd)
    )


def has_cpu_kernel(op: OpOverload) -> bool:
    """Does the op run on the CPU, by a kernel of its own or by those that it is composed of?"""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = op.name()  # type: ignore[no-untyped-call]
    key = torch._C.DispatchKey
    return any(
        has_kernel(name, each)
        for each in (
            key.CPU,
            key.CompositeImplicitAutograd,
            key.CompositeExplicitAutograd,
            key.CompositeExplicitAutogradNonFunctional,
        )
    )


def takes_numbers_as_tensors(op: OpOverload) -> bool:
    """Does the op take a Python number where its schema says Tensor?"""
    name: str = op._schema.name
    return bool(torch._C._should_allow_numbers_as_tensors(name.rpartition("::")[2]))


def has_autocast_kernel(op: OpOverload) -> bool:
    """Is the op one that autocast changes?"""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = op.name()  # type: ignore[no-untyped-call]
    key = torch._C.DispatchKey
    return has_kernel(name, key.AutocastCPU) or has_kernel(name, key.AutocastCUDA)


def has_custom_fake_kernel(op: OpOverload) -> bool:
    """Has the program registered its own fake kernel for the op?"""
    return _custom_kernels.find(op.name()).fake_impl.kernel is not None  # type: ignore[no-untyped-call]


def overload_of_definition(definition: object) -> OpOverload | None:
    """The one overload of an op that ``torch.library.custom_op`` defined; else None."""
    if isinstance(definition, _custom_ops.CustomOpDef):
        overload: OpOverload = definition._opoverload
        return overload
    return None


_KEYS_THAT_SERVE_META_TENSORS = (
    "Meta",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
)


def has_metadata_kernel(op: OpOverload) -> bool:
    """Can torch tell the metadata of the op's outputs without running it on real tensors?"""
    name: str = op.name()  # type: ignore[no-untyped-call]
    definition = _custom_ops.OPDEFS.get(name)
    if definition is not None and definition._abstract_fn is None:
        # It has a fake kernel in any case, which then raises.
        return can_generate_trivial_fake_impl(op)
    kernels = torch._C._dispatch_has_kernel_for_dispatch_key
    return (
        op.namespace in ("aten", "prims")  # torch's own care
        or any(kernels(name, key) for key in _KEYS_THAT_SERVE_META_TENSORS)
        or has_custom_fake_kernel(op)
        or op in decomposition_table
    )


def flop_formula(op: OpOverload) -> Callable[..., int] | None:
    """torch's count of the operations of an op, or one that a program registered with torch.

    It takes the op's arguments with tensors of any kind, and the output as ``out_val``.
    """
    from torch.utils import flop_counter

    formula: Callable[..., int] | None = flop_counter.flop_registry.get(op.overloadpacket)
    return formula
