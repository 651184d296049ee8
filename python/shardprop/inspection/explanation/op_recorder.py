"""The questions that a function puts to the propagator, put without computing anything.

The function runs on fake tensors. Every DTensor op in it is asked about anew, what torch's caches
hold notwithstanding, and decided as it is in a real run: under the policy that is enabled, outside
of the fake mode (in which torch takes a program to be compiled, and decides some ops otherwise).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from ... import _torch
from ..._torch import DTensor, FakeTensorMode, OpOverload, OpSchema, OutputSharding
from ...errors import ShardpropError
from ...propagation.hook import install, is_installed
from ...propagation.observers import is_rehearsed, rehearsed
from ...propagation.propagator import (
    enabled,
    is_enabled,
    propagate_aside,
    propagate_sharding,
    reinstall,
)
from .fake_arguments import Fakes, standing_in, without_gradients
from .model import DecisionExplanation

__all__ = ["observe"]


Explain = Callable[[OpSchema], DecisionExplanation]


def observe(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], explain: Explain
) -> list[DecisionExplanation]:
    """Run a function on fake tensors, and explain each op where it asks about it, up to the first
    that has no decision.

    Raises:
        ShardpropError: what it does depends on values, or it asks for such a run itself.
        Exception: what the function raises of itself.
    """
    observer = _Observer(explain)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = Fakes(mode)
    with ExitStack() as stack:
        stack.enter_context(_alone())
        stack.enter_context(rehearsed())
        stack.enter_context(_hooked(observer, fakes))
        stack.enter_context(_torch.no_modes())
        stack.enter_context(without_gradients())
        stack.enter_context(_torch.without_random_state())
        stack.enter_context(torch.random.fork_rng(devices=_generators()))
        args, kwargs = fakes.in_place_of((list(args), dict(kwargs)))
        stack.enter_context(standing_in(fakes, function, args, kwargs))
        stack.enter_context(mode)
        stack.enter_context(_AsksAnew(observer, fakes))
        try:
            function(*args, **kwargs)
        except _torch.VALUES_NEEDED as error:
            raise ShardpropError(
                "Expected a function whose ops do not depend on values, got one that reads a "
                f"tensor's ({type(error).__name__}): nothing is computed here. Trace a real run "
                "with shardprop.trace(), and explain its decisions."
            ) from error
        except Exception:
            if not observer.failed:
                raise
    return observer.explanations


_lock = threading.Lock()


@contextmanager
def _alone() -> Iterator[None]:
    """One run at a time, since all threads share torch's propagator: other threads wait."""
    if is_rehearsed():
        raise ShardpropError(
            "Expected a function that is not being explained already, got an explanation of a "
            "function inside another. Explain what it calls by itself."
        )
    with _lock:
        yield


def _generators() -> list[int]:
    """Devices whose random numbers are put back afterwards; the CPU's always are."""
    in_use: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return [torch.cuda.current_device()] if in_use else []


class _Observer:
    """Explains the ops that this program asks about, and answers as `propagate_sharding` does, but
    counts nothing.

    An op is explained while it is dispatched, where a decomposition comes apart as it does in
    a run. What it asks while it is decided (torch follows some decompositions by itself) is part of
    its decision.
    """

    def __init__(self, explain: Explain) -> None:
        self.explanations: list[DecisionExplanation] = []
        self.failed = False
        # Threads in which an op of the function is under way; others are none of its.
        self.inside = threading.local()
        self._explain = explain
        self._known: dict[OpSchema, DecisionExplanation] = {}
        self._deciding = False

    def propagate(self, schema: OpSchema) -> OutputSharding:
        """What torch's dispatcher calls meanwhile."""
        if self._deciding or not getattr(self.inside, "depth", 0):
            return propagate_sharding(schema)
        self._deciding = self.failed = True
        try:
            with _torch.no_modes():
                self.explanations.append(self._explained(schema))
                answer = propagate_aside(schema)
        finally:
            self._deciding = False
        self.failed = False
        return answer

    def _explained(self, schema: OpSchema) -> DecisionExplanation:
        """Equal schemas share an explanation."""
        try:
            found = self._known.get(schema)
        except TypeError:  # an argument without a hash
            return self._explain(schema)
        if found is None:
            found = self._known[schema] = self._explain(schema)
        return found


class _AsksAnew(_torch.TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Clears torch's caches before every op on DTensors, so that it is asked about; and has it work
    on fake tensors, for inside a DTensor's dispatch no fake mode would stop it."""

    def __init__(self, observer: _Observer, fakes: Fakes) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._observer = observer
        self._inside = observer.inside
        self._fakes = fakes

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if not any(issubclass(kind, DTensor) for kind in types):
            return func(*args, **(kwargs or {}))
        if not is_installed(self._observer.propagate):
            raise ShardpropError(
                "Expected a function that leaves shardprop as it is, got one in which it was "
                "enabled or disabled. Explain the function inside of that."
            )
        args, kwargs = self._fakes.in_place_of((args, kwargs or {}))
        _torch.forget_own_decisions()
        self._inside.depth = getattr(self._inside, "depth", 0) + 1
        try:
            return func(*args, **kwargs)
        finally:
            self._inside.depth -= 1


@contextmanager
def _hooked(observer: _Observer, fakes: Fakes) -> Iterator[None]:
    """The observer in the place of the propagator, and nothing moved; what was there before after
    it."""
    if not is_enabled():
        with enabled(), _hooked(observer, fakes):
            yield
        return
    install(observer.propagate)
    _torch.install_redistribute(fakes.redistribute_with(_torch.installed_redistribute()))
    try:
        yield
    finally:
        reinstall()
