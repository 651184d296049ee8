"""One program in one process: by torch alone, then with shardprop, and how they relate."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any
from unittest import mock

import torch
from torch.distributed.tensor import _redistribute

import shardprop
from shardprop import _torch
from shardprop.cli.decisions import Decision, clear_every_cache
from shardprop.propagation.timing import watch_propagation
from shardprop.redistribution.moves import Move

from ..quiet import quiet
from .outcome import Results, differing, freeze, is_finite

Program = Callable[[], Results]


@dataclass
class _Run:
    """What one run showed: its results, every decision, every redistribution that was executed."""

    results: object = None
    finite: bool = False
    seconds: float = 0.0
    propagation: float = 0.0
    asked: int = 0
    decisions: dict[str, None] = field(default_factory=dict)
    """Questions with their answers, in order and without repetition; as text, for symbolic sizes
    must neither be compared (that would be a guard) nor hashed."""
    moves: list[str] = field(default_factory=list)
    delegated: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Report:
    """How the two runs of a program relate on one rank."""

    differences: tuple[str, ...]
    """What differs, most telling first; empty when the runs are equal to the bit."""
    finite: bool
    """Whether all results are finite numbers."""
    stats: shardprop.Stats
    """The counters of the run with shardprop."""
    asked: tuple[int, int]
    """Decisions that no cache answered, of torch alone and of the run with shardprop."""
    moves: int
    """Redistributions that each run executed."""
    delegated: dict[str, int]
    """Per op how often torch's own functions decided it in the run with shardprop."""
    seconds: tuple[float, float]
    """Wall time of torch alone and of the run with shardprop."""
    propagation: tuple[float, float]
    """That which decisions took of it."""

    def summary(self) -> str:
        """Who decided, what was executed and how long it took, in a few words."""
        stats = self.stats
        return (
            f"{stats.decisions} decisions by the core of {self.asked[1]} asked "
            f"(torch alone {self.asked[0]}), {self.moves} redistributions, "
            f"{self.seconds[1]:.1f} s (torch alone {self.seconds[0]:.1f} s); "
            f"delegated {self.delegated}, fallbacks {stats.fallbacks}, "
            f"price fallbacks {stats.price_fallbacks}"
        )


def compare(program: Program) -> Report:
    """Run the program twice from the same state, first by torch alone."""
    alone = _run(program, with_shardprop=False)
    ours = _run(program, with_shardprop=True)
    return Report(
        differences=tuple(_differences(alone, ours)),
        finite=ours.finite,
        stats=shardprop.stats(),
        asked=(alone.asked, ours.asked),
        moves=len(ours.moves),
        delegated=dict(ours.delegated),
        seconds=(alone.seconds, ours.seconds),
        propagation=(alone.propagation, ours.propagation),
    )


def _differences(alone: _Run, ours: _Run) -> Iterator[str]:
    # torch asks twice about an op that it decomposes: its caches are told how only the first time.
    if ours.asked > alone.asked:
        yield f"torch alone asked for {alone.asked} decisions, with shardprop for {ours.asked}"
    yield from _unequal("decision", [*alone.decisions], [*ours.decisions])
    yield from _unequal("redistribution", alone.moves, ours.moves)
    yield from differing(alone.results, ours.results, "results")


def _unequal(what: str, alone: list[str], ours: list[str]) -> Iterator[str]:
    """The first place where two logs part; what follows it is a consequence."""
    if len(alone) != len(ours):
        yield f"{what}s: torch alone made {len(alone)}, with shardprop {len(ours)}"
    for index, (a, b) in enumerate(zip_longest(alone, ours)):
        if a != b:
            yield f"{what} {index}: torch alone\n    {a}\n  with shardprop\n    {b}"
            return


def _run(program: Program, *, with_shardprop: bool) -> _Run:
    """One run, from caches as cold as in a new process."""
    assert not shardprop.is_enabled(), "torch alone must be alone"
    run = _Run()
    clear_every_cache()
    if "torch._dynamo" in sys.modules:
        with quiet():
            torch._dynamo.reset()
    torch.manual_seed(0)
    hook = shardprop.enabled() if with_shardprop else nullcontext()
    with quiet(), hook, _observed(run):
        start = time.perf_counter()
        results = program()
        run.seconds = time.perf_counter() - start
    # Frozen with nobody watching: a partial DTensor is read by its local value.
    run.finite = is_finite(results)
    run.results = freeze(results)
    return run


@contextmanager
def _observed(run: _Run) -> Iterator[None]:
    """Log decisions as questions with answers, and redistributions with their steps.

    Neither needs a dispatch mode, so the program takes the same paths as without the log.
    """
    delegated_so_far = 0

    def decided(schema: _torch.OpSchema, answer: Any, seconds: float) -> None:
        nonlocal delegated_so_far
        run.propagation += seconds
        decision = Decision.of(schema, answer)
        run.asked += 1
        run.decisions[f"{decision.question}\n    -> {decision.answer}"] = None
        delegated = sum(shardprop.stats().delegated.values())
        if delegated > delegated_so_far:
            run.delegated[str(schema.op)] += 1
        delegated_so_far = delegated

    inner = _redistribute._optimize_transform_infos
    # What the executor makes once, and then runs.
    make_steps, make_move, run_move = _torch.local_steps, Move.__init__, Move.run
    made: dict[int, tuple[Move, str]] = {}
    compiling: list[str] = []
    is_compiling = False

    def executed(infos, mesh, source, target):
        text = f"{tuple(mesh.shape)} {source} -> {target}: {infos}"
        (compiling if is_compiling else run.moves).append(text)
        return inner(infos, mesh, source, target)

    def makes_steps(*plan: Any) -> Any:
        nonlocal is_compiling
        is_compiling = True
        try:
            return make_steps(*plan)
        finally:
            is_compiling = False

    def makes_move(move: Move, *parts: Any) -> None:
        make_move(move, *parts)
        made[id(move)] = move, compiling[-1]

    def runs(move: Move, *given: Any) -> torch.Tensor:
        run.moves.append(made[id(move)][1])
        return run_move(move, *given)

    shardprop.reset_stats()
    with (
        watch_propagation(decided),
        mock.patch.object(_redistribute, "_optimize_transform_infos", executed),
        mock.patch.object(_torch, "local_steps", makes_steps),
        mock.patch.object(Move, "__init__", makes_move),
        mock.patch.object(Move, "run", runs),
    ):
        yield
