"""The functions by which torch's optimizers make a step, and what can stand in their place."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

import torch

from .compiling import hide_from_dynamo
from .dispatch import handlers
from .dispatch_rules import has_dispatch_rules
from .types import PLAIN_TENSORS, DTensor, DTensorSpec

__all__ = [
    "StepOf",
    "as_on_locals",
    "goes_one_by_one",
    "held_by_rank",
    "install_steps",
    "may_step_on_locals",
    "step_conditions",
    "uninstall_steps",
    "versions_of",
]

# Those that compute each element of a parameter from the same element of its gradient and state.
# Adafactor and Muon do not, and a step of Rprop gathers, or is refused.
_ELEMENTWISE = "adadelta", "adagrad", "adam", "adamax", "asgd", "nadam", "radam", "rmsprop", "sgd"
_KINDS = ("_single_tensor_", "_multi_tensor_", "_fused_")

# Makes a step: called with torch's function, and with its arguments.
StepOf = Callable[[Callable[..., None], tuple[Any, ...], dict[str, Any]], None]

_installed: list[StepOf | None] = [None]
# Our functions in the place of torch's, with these and where they were found. Around which Dynamo
# puts its own, those stay: they do what torch's do while nothing is installed.
_standing: dict[Callable[..., None], tuple[ModuleType, str, Callable[..., None]]] = {}


def install_steps(step: StepOf) -> None:
    """Have `step` called where torch's optimizers call these functions, unless somebody else's
    stands there."""
    hide_from_dynamo(step)
    _installed[0] = step
    for optimizer in _ELEMENTWISE:
        module = importlib.import_module(f"torch.optim.{optimizer}")
        for name in (kind + optimizer for kind in _KINDS):
            there: Any = vars(module).get(name)
            # Dynamo puts a function of its own around fused steps.
            written: Any = getattr(there, "_torchdynamo_orig_callable", there)
            is_torchs = getattr(written, "__globals__", None) is vars(module)
            if is_torchs and written not in _standing:
                ours = _standing_in(there, written)
                _standing[ours] = module, name, there
                setattr(module, name, ours)


def uninstall_steps() -> None:
    """Undo `install_steps`."""
    _installed[0] = None
    for ours, (module, name, torchs) in [*_standing.items()]:
        if vars(module)[name] is ours:
            setattr(module, name, torchs)
            del _standing[ours]


# Takes torch's parameters by name: to pack and unpack a dozen of them would cost each step on plain
# tensors three times what this does. Dynamo follows torch's own function.
_MADE = """
def around(torchs, is_compiling, dtensor, installed):
    def made({taken}):
        if type({first}) is list:
            for each in {first}:
                if type(each) is dtensor and not is_compiling():
                    if step := installed[0]:
                        return step(torchs, ({args},), dict({options}))
                    break
        torchs({args}, {options})
    return made
"""


# Once each: what Dynamo compiles goes by the code.
@functools.cache
def _standing_in(torchs: Any, written: Any) -> Callable[..., None]:
    named = inspect.getfullargspec(written)
    source = _MADE.format(
        taken=", ".join([*named.args, *["*"][: len(named.kwonlyargs)], *named.kwonlyargs]),
        first=named.args[0],
        args=", ".join(named.args),
        options=", ".join(f"{name}={name}" for name in named.kwonlyargs),
    )
    space: dict[str, Any] = {}
    exec(source, space)
    made = space["around"](torchs, torch.compiler.is_dynamo_compiling, DTensor, _installed)
    # TorchScript reads torch's source, and looks for what that names among the globals.
    ours = FunctionType(made.__code__, written.__globals__, closure=made.__closure__)
    ours.__defaults__, ours.__kwdefaults__ = written.__defaults__, written.__kwdefaults__
    return functools.update_wrapper(ours, torchs)


_NUMBERS = frozenset([bool, int, float])
_HOLD_TENSORS = frozenset([DTensor, list, tuple, dict])


def goes_one_by_one(torchs: Callable[..., None]) -> bool:
    """Does a function of torch's take one parameter after the other, and not lists of them?"""
    return torchs.__name__.startswith(_KINDS[0])


def step_conditions(others: Iterable[object]) -> Hashable:
    """What the ops of a step depend on beside its tensors: who handles ops of DTensors, whether
    plain tensors count as replicated, which options are on."""
    return (
        *map(id, handlers().values()),
        DTensor._op_dispatcher._allow_implicit_replication,
        *(bool(each) for each in others if type(each) in _NUMBERS),
    )


def may_step_on_locals(others: Iterable[object]) -> bool:
    """May a step be made on what ranks hold: with these beside the lists of tensors, autograd being
    out of the way, and no function mode looking on, nor ops run in another way?"""
    return not (
        torch.is_grad_enabled()
        or torch.is_inference_mode_enabled()
        or torch._C._len_torch_function_stack()
        or has_dispatch_rules()
        or not _HOLD_TENSORS.isdisjoint(map(type, others))
    )


def held_by_rank(
    lists: Iterable[Iterable[Any]],
) -> tuple[list[list[torch.Tensor]], list[list[DTensorSpec | torch.Size]]] | None:
    """What a rank holds of tensors, and the specs of DTensors, the shapes of others; None where one
    of them, or what is held, is of a class of somebody's own, yet to be made (the first step of
    SGD with a momentum makes its state), or not to be written into (made in inference mode)."""
    every_local, every_layout = [], []
    for tensors in lists:
        local: list[torch.Tensor] = []
        layouts: list[DTensorSpec | torch.Size] = []
        for tensor in tensors:
            is_placed = type(tensor) is DTensor
            held = tensor._local_tensor if is_placed else tensor
            if type(held) not in PLAIN_TENSORS or held.is_inference():
                return None
            local.append(held)
            layouts.append(tensor._spec if is_placed else tensor.shape)
        every_local.append(local)
        every_layout.append(layouts)
    return every_local, every_layout


def versions_of(lists: Iterable[Iterable[torch.Tensor]]) -> list[list[int]]:
    """How often autograd saw each tensor written into; 0 for those that it does not watch."""
    return [[0 if each.is_inference() else each._version for each in of] for of in lists]


@contextmanager
def as_on_locals(
    lists: Iterable[Iterable[torch.Tensor]], written: Sequence[Sequence[int]]
) -> Iterator[None]:
    """In the block ops do on what ranks hold what DTensor's dispatcher does: unseen by autograd,
    which then sees each tensor in `lists` written into as often as `written` says."""
    try:
        with torch._C._AutoDispatchBelowADInplaceOrView():
            yield
    finally:
        tensors, times = [*chain.from_iterable(lists)], [*chain.from_iterable(written)]
        for risen in range(max(times, default=0)):
            seen = [each for each, often in zip(tensors, times, strict=True) if often > risen]
            torch.autograd.graph.increment_version(seen)
