"""`erase`: a module or function whose DTensors are known once, and gone from then on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from torch import nn

from .. import _torch
from .._torch.compiled_frames import (
    LIMIT_REACHED,
    NOT_CAPTURED,
    Compiler,
    Passed,
    call_of,
    cause_of,
    compile_in_place,
    compiled_whole,
    is_of_another_trace,
    known_alone,
)
from .._torch.compiled_guards import ForwardsOf
from .._torch.joint_graphs import NotErased
from ..errors import ShardpropError
from ..propagation.observers import is_watched
from .passes import PASSES
from .pieces import Piece
from .torch_backend import Backend

__all__ = ["Erased", "erase"]

# Each takes as long as torch.compile takes to find that it cannot follow.
_TRIES = 8

Program = TypeVar("Program", bound=Callable[..., Any])


class Erased(Generic[Program]):
    """What `erase` has made of a program; called, it runs the program.

    Attributes:
        program: The module or function.
    """

    def __init__(self, program: Program, backend: Backend, run: Callable[..., Any]) -> None:
        self.program = program
        self._backend = backend
        self._run = run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        return self._run(*args, **kwargs)

    @property
    def pieces(self) -> Sequence[Piece]:
        """What was made so far, of the program or of its submodules."""
        return (*self._backend.pieces,)

    @property
    def passed(self) -> Mapping[str, int]:
        """Calls that ran on DTensors though others are erased, by reason."""
        return dict(self._backend.passed)

    def __str__(self) -> str:
        return "\n".join(map(str, self.pieces))


def erase(
    program: Program,
    *,
    fullgraph: bool = False,
    passes: Sequence[str] = PASSES,
    compiler: Compiler | str | None = None,
    recompute: bool = False,
) -> Erased[Program]:
    """Run a program of DTensors by local ops and collectives alone.

    Calls with gradients run on DTensors until it has been seen how gradients of results come in.
    The next follows the program through DTensor, forward and backward, with the decisions that are
    made now; later calls run what it came to on the local tensors, as generated code in one
    autograd function. Operands, parameters and results stay what they are. A call of another kind
    (sizes, placements, modes, attributes, hooks, policy) is followed anew.

    A module that cannot be captured whole runs as it is, and its submodules are erased, each by
    itself; a function runs as it is. `Erased.pieces` says why, and from which line.

    Args:
        program: A module, which is erased in place (hooks, parameters and ``state_dict`` stay as
            they are), or a function.
        fullgraph: Refuse a program that cannot be captured whole.
        passes: What cleans the graphs: of `PASSES`, which keep all bits, and `ROUNDING_PASSES`.
        compiler: What makes functions of the local graphs: a backend of ``torch.compile``
            (``"inductor"``), which may compute in another order. None: generated Python.
        recompute: Keep less for the backward, which makes cheap calls of the forward again: torch's
            minimum cut chooses. Else, as in autograd, what the backward needs is kept.

    Raises:
        ShardpropError: an unknown pass or compiler, or something that cannot be called; when it is
            called, a program that cannot be captured whole under `fullgraph`.
    """
    if not callable(program):
        raise ShardpropError(f"Expected a module or a function, got {type(program).__name__}.")
    backend = Backend(passes, compiler, recompute=recompute)
    how = _How(backend, fullgraph)
    if isinstance(program, nn.Module):
        how.erase_in_place(program)
        return Erased(program, backend, program)
    return Erased(program, backend, _Whole(program, how))


class _How:
    """How programs are erased.

    Attributes:
        backend: Makes local graphs of what is captured.
        fullgraph: Is what cannot be captured whole refused?
    """

    def __init__(self, backend: Backend, fullgraph: bool) -> None:
        self.backend, self.fullgraph = backend, fullgraph

    def erase_in_place(self, module: nn.Module) -> None:
        """Have calls of a module run what is made of it."""
        compile_in_place(module, _Whole(call_of(module), self, module))


class _Whole:
    """A function that is captured whole, or left as it is; then the submodules of its module are
    erased."""

    def __init__(
        self, function: Callable[..., Any], how: _How, module: nn.Module | None = None
    ) -> None:
        self._function = function
        self._how = how
        self._module = module
        self._begin_anew()
        self._was_captured = False
        self._tries_left = _TRIES

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._run is self._function:
            return self._function(*args, **kwargs)
        reason = _passes_over()
        if not self._forwards.are_as_before():
            self._begin_anew()
        if reason is None:
            try:
                made = self._run(*args, **kwargs)
            except Passed as passed:
                reason = str(passed)
            except NOT_CAPTURED as error:
                if self._how.fullgraph:
                    raise ShardpropError(
                        "Expected a program that is captured whole (fullgraph=True), got "
                        f"{Piece.left(self._function, error).head}."
                    ) from error
                return self._left(error)(*args, **kwargs)
            except RuntimeError as error:
                if not is_of_another_trace(error):
                    raise
                reason = "another thread follows a program"
            else:
                self._was_captured = True
                return made
        self._how.backend.passed[reason] += 1
        return self._function(*args, **kwargs)

    def _begin_anew(self) -> None:
        self._run = compiled_whole(self._function, self._how.backend)
        self._forwards = ForwardsOf(self._module)

    def _left(self, error: Exception) -> Callable[..., Any]:
        """What runs in this call. From now on it does in all; but where torch.compile has captured
        other calls, that is run as long as it holds, and a few tries more are made."""
        # A sharded embedding's decision holds the mask of what was being followed.
        _torch.forget_decisions()
        self._how.backend.pieces.append(Piece.left(self._function, error))
        if self._was_captured and not isinstance(cause_of(error), NotErased):
            self._tries_left -= 1
            if not self._tries_left or isinstance(error, LIMIT_REACHED):
                self._run = known_alone(self._run)
            return self._function
        self._run = self._function
        if self._module is not None:
            compile_in_place(self._module, None)
            for child in _callable_children(self._module):
                self._how.erase_in_place(child)
        return self._function


def _passes_over() -> str | None:
    """Why no call is erased now, whatever it is."""
    if is_watched():
        return "a trace sees each op"
    if _torch.has_global_hooks():
        return "there are hooks of all modules"
    if _torch.is_permissive_or_strict():
        return "under implicit_replication or ExplicitRedistributionContext"
    return None


def _callable_children(module: nn.Module) -> list[nn.Module]:
    """Its children; in place of one that only holds others, those."""
    found: list[nn.Module] = []
    for child in module.children():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            found += _callable_children(child)
        else:
            found.append(child)
    return found
