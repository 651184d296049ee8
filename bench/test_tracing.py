"""What a trace adds to the first step of the demo's transformer on a mesh of 2x2x2.

Steps with and without a trace take turns, each from cold caches. What is told is processor time of
the thread, the least of many rounds, which other programs on the machine disturb least; with it the
decisions and the part of propagation that the trace takes. shardprop has to be enabled before, so
that the trace does not.
"""

from __future__ import annotations

import gc
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch

import shardprop
from shardprop.cli.demo_program.train import Trainer
from shardprop.support.torch_advice import without_torch_advice

from .trace_instructions import new_trainer
from .training import forget

_ROUNDS = 40


@pytest.fixture
def trainer() -> Trainer:
    return new_trainer()


def _timed(trainer: Trainer, block: AbstractContextManager[Any]) -> tuple[float, Any]:
    """Seconds of a first step in a block, with its beginning and end; and what the block gives."""
    forget()
    gc.collect()
    start = time.thread_time()
    with block as given:
        trainer.step()
    return time.thread_time() - start, given


def test_first_step(trainer: Trainer, benchmark: Any) -> None:
    benchmark.group = "first step of the demo's transformer, 2x2x2"
    alone, traced, propagation = [], [], []
    with without_torch_advice(), shardprop.enabled():
        trainer.step()
        for _ in range(_ROUNDS):
            shardprop.reset_stats()
            alone.append(_timed(trainer, nullcontext())[0])
            propagation.append(shardprop.stats().seconds)
            seconds, found = _timed(trainer, shardprop.trace())
            traced.append(seconds)
        benchmark.pedantic(trainer.step, setup=forget, rounds=3)
    assert len(found.decisions) == found.misses > 100
    assert len(found.redistributions) > 10
    extra = min(traced) - min(alone)
    benchmark.extra_info.update(
        decisions=len(found.decisions),
        redistributions=len(found.redistributions),
        step_ms=1e3 * min(alone),
        propagation_ms=1e3 * min(propagation),
        trace_ms=1e3 * extra,
        trace_per_propagation=extra / min(propagation),
    )
    print({key: round(value, 3) for key, value in benchmark.extra_info.items()})


@pytest.mark.parametrize("who", ["untraced", "traced"])
def test_one_miss(who: str, mesh_of: Any, benchmark: Any) -> None:
    """The cheapest decision there is: the core holds the answer."""
    from shardprop import _torch
    from shardprop.propagation.propagator import propagate_sharding

    from .engine import R, S, spec_of

    benchmark.group = "one decision that the core has held"
    spec = spec_of(mesh_of(8), (8, 8), [S(0)])
    other = spec_of(mesh_of(8), (8, 8), [R])
    schema = _torch.OpSchema(torch.ops.aten.mm.default, (spec, other), {})
    with shardprop.enabled(), shardprop.trace() if who == "traced" else nullcontext() as found:
        answer = benchmark(propagate_sharding, schema)
    assert answer.output_spec.placements == (S(0),)
    assert found is None or len(found.decisions) + found.dropped > 10
