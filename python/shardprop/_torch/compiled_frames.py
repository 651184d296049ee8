"""torch.compile as what finds the graph of a program, and looks whether it still holds."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.exc import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    TorchDynamoException,
)
from torch._dynamo.types import ConvertFrameReturn
from torch.utils._pytree import tree_leaves

from ..errors import ShardpropError
from ..support.cache import BoundedMap
from .compiled_guards import as_on_dtensors, specs_by_identity
from .joint_graphs import CAPTURING, NotErased, without_grad_warnings

__all__ = [
    "LIMIT_REACHED",
    "NOT_CAPTURED",
    "Compiler",
    "Passed",
    "backend_of",
    "call_of",
    "compile_in_place",
    "compiled_by",
    "compiled_whole",
    "is_of_another_trace",
    "known_alone",
]

# Makes a function of a graph, and of operands like its own.
Compiler = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]
# Raised before anything of a program has run.
NOT_CAPTURED = (
    NotErased,
    TorchDynamoException,
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
)

LIMIT_REACHED = FailOnRecompileLimitHit

_KEPT_OF_A_FUNCTION = 64
_SIZES_HELD = 10_000


class Passed(Exception):
    """torch.compile passes over a call, of which nothing has run yet; says why."""


class _CompileFrame:
    """What torch.compile calls for a frame that it has not compiled yet.

    Args:
        compile_frame: Does so by itself.
        code: Of the one function that is to be compiled. What is called from one that cannot be
            runs as it is, where torch.compile would go on with each function by itself.
    """

    def __init__(self, compile_frame: Callable[..., Any], code: CodeType) -> None:
        self._compile_frame = compile_frame
        self._code = code
        self._met: BoundedMap[bool] = BoundedMap("sizes that erased programs met", _SIZES_HELD)
        self._torchdynamo_orig_backend = compile_frame  # by which it finds what it has compiled

    def __call__(self, frame: Any, *args: Any) -> Any:
        if frame.f_code is not self._code:
            return ConvertFrameReturn(apply_to_code=False)
        self._meet(_sizes_of(frame.f_locals))
        # Hooks of modules are looked at, those that are added later too. What it notes of
        # parameters while it compiles is let go of, or `Module.to` could not exchange them.
        with (
            CAPTURING,
            without_grad_warnings(),
            specs_by_identity(),
            as_on_dtensors(),
            torch._dynamo.config.patch(
                skip_nnmodule_hook_guards=False,
                invalidate_compile_context_weakrefs=True,
                recompile_limit=_KEPT_OF_A_FUNCTION,
            ),
        ):
            made = self._compile_frame(frame, *args)
        if made.guarded_code is None:
            raise Passed(made.skip_reason or "torch.compile finds no tensor in it")
        return made

    def _meet(self, sizes: Hashable) -> None:
        """Pass over a call whose sizes are new, though others are known: in a program each of whose
        steps has a length of its own, no graph is worth its making."""
        is_new, is_first = self._met.get(sizes) is None, len(self._met) == 0
        self._met.put(sizes, True)
        if is_new and not is_first:
            raise Passed("its sizes are met for the first time")


def _sizes_of(operands: Any) -> Hashable:
    tensors = [each for each in tree_leaves(operands) if isinstance(each, torch.Tensor)]
    return (*(tensor.shape for tensor in tensors),)


def compiled_whole(function: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    """The function under torch.compile, as one graph.

    Calling it raises one of `NOT_CAPTURED` where it cannot be captured so, and `Passed` where it
    is not this time; nothing has run then.
    """
    own = _with_own_code(function)
    context: Any = torch._dynamo.optimize(backend=backend, nopython=True, dynamic=False)
    if not hasattr(context, "callback"):
        return _passing("torch.compile is off (TORCHDYNAMO_DISABLE)")
    context.callback = _CompileFrame(context.callback, own.__code__)
    made: Callable[..., Any] = context(own)
    return made


def _passing(reason: str) -> Callable[..., Any]:
    def passed(*_: Any, **__: Any) -> Any:
        raise Passed(reason)

    return passed


def _with_own_code(function: Callable[..., Any]) -> FunctionType:
    """A function that calls this one, of a code object of its own: by that torch.compile keeps,
    bounds and looks through what it has compiled, and all modules have one for their calls."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return FunctionType(call.__code__.replace(), globals(), "call", None, call.__closure__)


def backend_of(name: str) -> Compiler:
    """torch.compile's backend of this name.

    Raises:
        ShardpropError: there is none.
    """
    try:
        backend: Compiler = torch._dynamo.lookup_backend(name)
    except TorchDynamoException as error:
        known = ", ".join(sorted(torch._dynamo.list_backends()))
        raise ShardpropError(f"compiler: Expected one of {known}, got {name!r}.") from error
    return backend


def compiled_by(compiler: Compiler, module: fx.GraphModule) -> Callable[[list[Any]], Any]:
    """A function of the list of a graph's operands, which it clears."""
    operands = [node.meta["val"] for node in module.graph.find_nodes(op="placeholder")]
    module.recompile()
    with torch.no_grad():
        function = compiler(module, operands)

    def run(given: list[Any]) -> Any:
        taken = (*given,)
        given.clear()
        return (*function(*taken),)

    return run


def cause_of(error: Exception) -> Exception:
    """What a backend has raised, where it is that which torch.compile passes on."""
    cause: Exception = getattr(error, "inner_exception", error)
    return cause


def is_of_another_trace(error: RuntimeError) -> bool:
    """Is it what torch raises, before anything has run, while any thread follows a program?"""
    return str(error).startswith("Detected that you are using FX to symbolically trace")


def compile_in_place(module: nn.Module, run: Callable[..., Any] | None) -> None:
    """Have calls of the module go to `run`, hooks and all; None: to itself."""
    module._compiled_call_impl = run


def call_of(module: nn.Module) -> Callable[..., Any]:
    """What a call of the module comes to: its hooks, and its forward."""
    return module._call_impl


def known_alone(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """What was compiled so far, run where its guards hold; else the function as it is."""
    made: Callable[..., Any] = torch._dynamo.run(compiled)
    return made
