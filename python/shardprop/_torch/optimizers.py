"""The functions by which torch's optimizers make a step, and what can stand in their place."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable
from itertools import chain
from types import ModuleType
from typing import Any

import torch

from .compiling import hide_from_dynamo
from .types import PLAIN_TENSORS, DTensor, DTensorSpec

__all__ = [
    "StepOf",
    "goes_one_by_one",
    "held_by_rank",
    "install_steps",
    "may_step_on_locals",
    "note_writes",
    "uninstall_steps",
]

# Those that compute each element of a parameter from the same element of its gradient and state.
# Adafactor and Muon do not, and of Rprop torch refuses to shard a step.
_ELEMENTWISE = "adadelta", "adagrad", "adam", "adamax", "asgd", "nadam", "radam", "rmsprop", "sgd"
_KINDS = ("_single_tensor_", "_multi_tensor_", "_fused_")

# Makes a step: called with torch's function, and with its arguments.
StepOf = Callable[[Callable[..., None], tuple[Any, ...], dict[str, Any]], None]


_step: StepOf | None = None
# Our functions in the place of torch's, with these and where they were found.
_standing: dict[Callable[..., None], tuple[ModuleType, str, Callable[..., None]]] = {}


def install_steps(step: StepOf) -> None:
    """Have `step` called where torch's optimizers call these functions, unless somebody else's
    stands there."""
    global _step
    hide_from_dynamo(step)
    _step = step
    for optimizer in _ELEMENTWISE:
        module = importlib.import_module(f"torch.optim.{optimizer}")
        for name in (kind + optimizer for kind in _KINDS):
            there: Any = vars(module).get(name)
            if getattr(there, "__module__", None) == module.__name__ and not _is_in(there):
                ours = _standing_in(there)
                _standing[ours] = module, name, there
                setattr(module, name, ours)


def uninstall_steps() -> None:
    """Undo `install_steps`."""
    global _step
    _step = None
    for ours, (module, name, torchs) in [*_standing.items()]:
        if vars(module)[name] is ours:
            setattr(module, name, torchs)
            del _standing[ours]


def _is_in(function: Any) -> bool:
    """Is it one of ours, or somebody's around one? Dynamo wraps those of fused steps."""
    return inspect.unwrap(function, stop=lambda each: each in _standing) in _standing


def _standing_in(torchs: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(torchs)
    def made(*args: Any, **options: Any) -> None:
        step = _step
        # Dynamo follows torch's own function.
        if step is None or DTensor not in map(type, args[0]) or _is_compiling():
            torchs(*args, **options)
        else:
            step(torchs, args, options)

    return made


_is_compiling = torch.compiler.is_dynamo_compiling


def goes_one_by_one(torchs: Callable[..., None]) -> bool:
    """Does a function of torch's take one parameter after the other, and not lists of them?"""
    return torchs.__name__.startswith(_KINDS[0])


def may_step_on_locals(options: Iterable[object]) -> bool:
    """May a step be made on what ranks hold, no function mode looking on and autograd being out of
    the way, with these values beside the tensors?"""
    return not (
        torch.is_grad_enabled()
        or torch.is_inference_mode_enabled()
        or torch._C._len_torch_function_stack()
        or DTensor in map(type, options)
    )


def held_by_rank(
    tensors: Iterable[torch.Tensor | None],
) -> tuple[list[torch.Tensor], list[DTensorSpec | None]] | None:
    """What a rank holds of tensors, and their specs, None for those that are no DTensors; None
    where one of them, or what is held, is of a class of somebody's own, or yet to be made (the
    first step of SGD with a momentum makes its state)."""
    local: list[torch.Tensor] = []
    specs: list[DTensorSpec | None] = []
    for tensor in tensors:
        if type(tensor) is DTensor:
            held = tensor._local_tensor
            specs.append(tensor._spec)
        else:
            held = tensor  # type: ignore[assignment]
            specs.append(None)
        if type(held) not in PLAIN_TENSORS:
            return None
        local.append(held)
    return local, specs


def note_writes(written: Iterable[Iterable[torch.Tensor]]) -> None:
    """Have autograd refuse a backward pass that needs what these DTensors held before."""
    everything = chain.from_iterable(written)
    torch.autograd.graph.increment_version([each for each in everything if type(each) is DTensor])
