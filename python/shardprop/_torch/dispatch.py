"""Ways to call an op past what the program has put around ops."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch._library.simple_registry import singleton as _custom_kernels
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

__all__ = [
    "has_autocast_kernel",
    "has_custom_fake_kernel",
    "is_autocast_on",
    "kernel_state",
    "no_mode_dispatch",
    "no_modes",
    "no_torch_function",
    "outside_dispatch",
]


_OUTSIDE = (
    torch._C._dispatch_tls_local_include_set(),
    torch._C._dispatch_tls_local_exclude_set(),
)

_KEY = torch._C.DispatchKey
_ABOVE_KERNELS = (
    *(_KEY.Python, _KEY.PythonTLSSnapshot, _KEY.PreDispatch),
    *(_KEY.Functionalize, _KEY.FuncTorchDynamicLayerFrontMode),
    *(_KEY.AutogradFunctionality, _KEY.ADInplaceOrView),
)
_KERNELS_ONLY = (
    _OUTSIDE[0],
    functools.reduce(operator.or_, map(torch._C.DispatchKeySet, _ABOVE_KERNELS), _OUTSIDE[1]),
)
_TRACERS_KERNELS_ONLY = (
    _KERNELS_ONLY[0] | torch._C.DispatchKeySet(_KEY.PythonDispatcher),
    _KERNELS_ONLY[1],
)


def no_modes() -> AbstractContextManager[object]:
    """No mode of the program (fake tensors, proxies, counters) sees the block."""
    return _disable_current_modes()


@contextmanager
def outside_dispatch() -> Iterator[None]:
    """As if no op, mode or inference mode were under way: composite ops come apart first."""
    with no_modes(), torch._C._ForceDispatchKeyGuard(*_OUTSIDE), torch.inference_mode(False):
        yield


def no_mode_dispatch() -> AbstractContextManager[object]:
    """A call goes straight to its kernel: no mode, transform, tracer or autograd sees it.

    A tracer may have put torch's dispatcher in Python to work, which prefers kernels in Python:
    they can have other strides for dims of size 1, and refuse more. Then it goes on to choose.
    """
    tracing = torch._C._dispatch_tls_is_dispatch_key_included(_KEY.PythonDispatcher)
    return torch._C._ForceDispatchKeyGuard(*(_TRACERS_KERNELS_ONLY if tracing else _KERNELS_ONLY))


def kernel_state() -> tuple[object, ...]:
    """What of the program's settings a meta kernel may read, or which kernel it is."""
    return (
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch._C._dispatch_tls_is_dispatch_key_included(_KEY.PythonDispatcher),
    )


def no_torch_function() -> AbstractContextManager[object]:
    """No function mode (a default device is one) sees a call; half the price of the public one."""
    return torch._C.DisableTorchFunction()


def is_autocast_on() -> bool:
    """Would autocast change ops now? Not while an op runs that it has changed already."""
    return torch._C._is_any_autocast_enabled()


def has_autocast_kernel(op: OpOverload) -> bool:
    """Is the op one that autocast changes?"""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = op.name()  # type: ignore[no-untyped-call]
    return has_kernel(name, _KEY.AutocastCPU) or has_kernel(name, _KEY.AutocastCUDA)


def has_custom_fake_kernel(op: OpOverload) -> bool:
    """Has the program registered its own fake kernel for the op?"""
    return _custom_kernels.find(op.name()).fake_impl.kernel is not None  # type: ignore[no-untyped-call]
