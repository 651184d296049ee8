"""What the command line asks for, checked before anything is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .._torch import OpOverload
from ..errors import ShardpropError
from .calls.call import Call
from .files import generator_of_calls
from .names import ops_decided, ops_named, ops_with_rules
from .settings import Settings

__all__ = ["Request", "RequestError", "ops_of", "own_calls", "settings_of"]


class RequestError(ShardpropError):
    """A request that makes no sense."""


@dataclass(frozen=True)
class Request:
    """The options of the command line as they are given; see there."""

    ops: Sequence[str] = ()
    every_op: bool = False
    module: Path | None = None
    samples: Path | None = None
    rule: str = "active"
    ranks: str = "2,3"
    composed: str = "2,2"
    missing: bool = True
    strided: bool = True
    gradients: bool = True
    plans: bool = False
    jobs: int | None = None
    time_limit: float = 60.0
    seed: int = 0
    repro: Path | None = None


def settings_of(request: Request) -> Settings:
    """What is tried on every call.

    Raises:
        RequestError: an option has a value that makes no sense.
    """
    if request.jobs is not None and request.jobs < 1:
        raise RequestError(f"Expected --jobs of 1 or more, got {request.jobs}.")
    if request.time_limit <= 0:
        raise RequestError(f"Expected a --time-limit above 0, got {request.time_limit:g}.")
    if request.repro is not None and request.repro.exists() and not request.repro.is_dir():
        raise RequestError(f"Expected --repro to be a directory, got the file {request.repro}.")
    if request.repro is not None:
        try:
            request.repro.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RequestError(f"Expected --repro that can be made, got {error}.") from None
    ranks = _sizes("--ranks", request.ranks)
    composed = () if request.composed == "none" else _sizes("--composed", request.composed)
    if len(composed) == 1:
        raise RequestError(f"Expected --composed with two sizes or none, got {request.composed}.")
    settings = Settings(
        ranks=ranks,
        composed=composed,
        missing=request.missing,
        gradients=request.gradients,
        apart=True,  # the workers have one thread
        seed=request.seed,
    )
    if not request.strided:
        settings = replace(settings, strided_factors=())
    if request.rule == "active":
        return settings
    if request.rule == "torch":
        return replace(settings, rule="torch")
    raise RequestError(f"Expected --rule active or torch, got {request.rule!r}.")


def own_calls(request: Request) -> Callable[[OpOverload], Iterator[Call]] | None:
    """The generator of calls in the file that the request names, if it names one.

    Raises:
        FileError: the file cannot be used.
    """
    return None if request.samples is None else generator_of_calls(request.samples)


def ops_of(request: Request, registered: list[OpOverload]) -> list[OpOverload]:
    """The ops that are to be validated; `registered` are those that the module asked for registers.

    Raises:
        ShardpropError: there are none, or a name means none.
    """
    if request.every_op and request.ops:
        raise RequestError("Expected names of ops or --all, got both.")
    if request.every_op:
        return ops_with_rules() if request.rule == "torch" else ops_decided()
    if request.ops:
        return ops_named(request.ops)
    if not registered and not request.plans:
        raise RequestError(
            "Expected names of ops, --all, --module FILE or --plans, got none of them. "
            "Try: shardprop validate add"
        )
    return registered


def _sizes(option: str, text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 2 or max(sizes) > 16:
        raise RequestError(
            f"Expected {option} with numbers of ranks from 2 to 16, such as 2,3; got {text!r}."
        )
    return sizes
