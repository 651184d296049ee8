"""Calls that skip what the program has put around ops, and the settings that ops depend on."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.distributed.tensor import _random
from torch.distributed.tensor._utils import ExplicitRedistributionContext
from torch.utils import _mode_utils
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from .planner import forces_graph_plan
from .types import DTensor, DTensorSpec

no_dispatch = _mode_utils.no_dispatch


class _NoRandomState:
    """In the place of what gives each rank its random numbers: it leaves the generator alone."""

    distribute_region_enabled = False

    def _distribute_region(self, *_: object, **__: object) -> AbstractContextManager[None]:
        return nullcontext()


@contextmanager
def without_random_state() -> Iterator[None]:
    """Random ops on DTensors draw from the generator as it is in the block, whatever a rank holds.

    torch would make what gives each rank its numbers when it meets the first such op, and have the
    ranks agree on a seed, which is a collective.
    """
    before = _random._rng_tracker
    _random._rng_tracker = _NoRandomState()  # type: ignore[assignment]
    try:
        yield
    finally:
        _random._rng_tracker = before


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
_NOTHING = nullcontext()
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


def as_dispatched() -> AbstractContextManager[object]:
    """As inside of a DTensor op: what lies above tensor subclasses (autograd, functionalization)
    is out of the way, so that a decomposition comes apart as it does in a run."""
    include = torch._C._dispatch_tls_local_include_set()
    exclude = torch._C._dispatch_tls_local_exclude_set() | _above_subclasses()
    return torch._C._ForceDispatchKeyGuard(include, exclude)


@functools.cache
def _above_subclasses() -> torch._C.DispatchKeySet:
    """The keys that torch's dispatcher excludes where it calls ``__torch_dispatch__``."""
    look = _Look()  # type: ignore[no-untyped-call]
    with outside_dispatch(), look:
        torch.empty(0, device="meta").exp()
    return look.excluded


class _Look(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees which keys are excluded while an op is dispatched."""

    excluded: torch._C.DispatchKeySet

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.excluded = torch._C._dispatch_tls_local_exclude_set()
        return func(*args, **(kwargs or {}))


def no_mode_dispatch() -> AbstractContextManager[object]:
    """A call goes straight to its kernel: no mode, transform, tracer or autograd sees it.

    A tracer may have put torch's dispatcher in Python to work, which prefers kernels in Python:
    they can have other strides for dims of size 1, and refuse more. Then it goes on to choose.
    """
    keys = _TRACERS_KERNELS_ONLY if python_chooses_kernels() else _KERNELS_ONLY
    return torch._C._ForceDispatchKeyGuard(*keys)


def python_chooses_kernels() -> bool:
    """Has a tracer put torch's dispatcher in Python to work?"""
    return torch._C._dispatch_tls_is_dispatch_key_included(_KEY.PythonDispatcher)


def kernel_state() -> tuple[object, ...]:
    """What of the program's settings a meta kernel may read, or which kernel it is."""
    return (
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        python_chooses_kernels(),
    )


def fake_kernel_state() -> tuple[object, ...] | None:
    """What of the program's settings a kernel for fake tensors may read; None while a function mode
    (a default device is one) or autocast may change what it calls."""
    if torch._C._len_torch_function_stack() or is_autocast_on():
        return None
    return (
        *dispatch_state(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        # A convolution chooses its kernel, and with it the memory format of what it makes.
        torch._C._get_cudnn_enabled(),
        torch._C._get_cudnn_benchmark(),
        torch._C._get_cudnn_deterministic(),
        torch._C._get_mkldnn_enabled(),
        torch._C._get_nnpack_enabled(),
        # Attention, too.
        torch._C._get_flash_sdp_enabled(),
        torch._C._get_mem_efficient_sdp_enabled(),
        torch._C._get_math_sdp_enabled(),
        torch._C._get_cudnn_sdp_enabled(),
        *torch._C._get_sdp_priority_order(),
    )


def no_torch_function() -> AbstractContextManager[object]:
    """No function mode (a default device is one) sees a call; half the price of the public one."""
    return torch._C.DisableTorchFunction()


def is_autocast_on() -> bool:
    """Would autocast change ops now? Not while an op runs that it has changed already."""
    return torch._C._is_any_autocast_enabled()


def autocast_state() -> tuple[tuple[str, torch.dtype], ...]:
    """The types of devices for which autocast changes ops, and to which dtype."""
    kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return tuple((kind, torch.get_autocast_dtype(kind)) for kind in kinds)


def kernels_allowed() -> tuple[bool, ...]:
    """Which kernels attention may take."""
    return (
        torch._C._get_flash_sdp_enabled(),
        torch._C._get_mem_efficient_sdp_enabled(),
        torch._C._get_math_sdp_enabled(),
        torch._C._get_cudnn_sdp_enabled(),
    )


def has_global_hooks() -> bool:
    """Are there hooks of all modules?"""
    found: bool = torch.nn.modules.module._has_any_global_hook()  # type: ignore[no-untyped-call]
    return found


def is_permissive_or_strict() -> bool:
    """Are plain tensors taken for replicated ones (``implicit_replication``), or redistributions
    refused (``ExplicitRedistributionContext``)?"""
    is_strict = getattr(ExplicitRedistributionContext._local, "_active", None) is not None
    return is_strict or DTensor._op_dispatcher._allow_implicit_replication


def is_profiling() -> bool:
    """Is torch's profiler on?"""
    return torch.autograd.profiler._is_profiler_enabled


def is_saving_hooked() -> bool:
    """Do hooks take the tensors that are saved for the backward (activation checkpointing)?"""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def without_autocast() -> AbstractContextManager[object]:
    """Autocast changes no op of the block: what is called was changed when it was traced."""
    return torch._C._DisableAutocast() if is_autocast_on() else _NOTHING


def dispatch_state() -> tuple[object, ...]:
    """What a decomposition depends on beside its arguments.

    Inside a DTensor op autograd is out of the way, and composite ops reach a mode whole; asked from
    outside, they come apart first.
    """
    return (
        torch._C._dispatch_tls_local_exclude_set().raw_repr(),
        torch._C._dispatch_tls_local_include_set().raw_repr(),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        forces_graph_plan(),
    )


def refused_redistribution(error: BaseException | None) -> tuple[DTensorSpec, DTensorSpec] | None:
    """What an operand was to be moved from and to, where ``ExplicitRedistributionContext`` refused
    that; None for another error."""
    refusing = ExplicitRedistributionContext.observe_redistribution.__code__
    traceback = None if error is None else error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is refusing:
            held = traceback.tb_frame.f_locals
            return held["src_spec"], held["dst_spec"]
        traceback = traceback.tb_next
    return None
