"""Where each microsecond of a miss goes, torch's and ours: a table in Markdown.

    python -m bench.anatomy [--mesh-dims 1] [--rounds 300]

Each stage is a function that is wrapped with a clock; what it calls and is a stage itself does not
count for it. The clocks cost a third of a microsecond a stage. A round starts with torch's
decisions forgotten; with ``--cold`` all caches, torch's and ours, are emptied.
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import _sharding_prop

import shardprop
from shardprop import _core, _torch
from shardprop.propagation import decision, decision_cache, propagator
from shardprop.propagation.core_call import Arguments
from shardprop.rules.follow_rule import FollowRule

from .conftest import MESHES
from .test_miss import CASES
from .training import forget

Stage = tuple[object, str, str]  # a module or class, a function of it, the label

AROUND = "around it: dispatch, local op, wrapping"
THEIRS: tuple[Stage, ...] = (
    (_sharding_prop.ShardingPropagator, "propagate_op_sharding_non_cached", "all else"),
    (_sharding_prop.ShardingPropagator, "_propagate_tensor_meta_non_cached", "output metadata"),
    (_sharding_prop.ShardingPropagator, "_wrap_with_op_strategy", "wrapping into strategies"),
    (_sharding_prop, "_expand_single_dim_strategy_to_mesh", "rule, mesh product, prices"),
    (_sharding_prop, "_select_min_cost_strategy", "selection"),
    (
        _sharding_prop.ShardingPropagator,
        "_create_output_spec_with_new_tensor_meta",
        "specs of the answer",
    ),
)
OURS: tuple[Stage, ...] = (
    (decision, "output_meta", "output metadata"),
    (decision, "question_of", "reading the arguments"),
    (Arguments, "rows", "rule, or what is held"),
    (decision_cache.DecisionCache, "choose", "rule, or what is held"),
    (FollowRule, "choose", "rule, or what is held"),
    (_core, "signature", "reading the arguments"),
    (decision_cache, "prepare", "reading the arguments"),
    (_core, "decide", "the core: expansion, search, prices"),
    (decision, "output_sharding", "specs of the answer"),
)


class Clock:
    """Adds up the time of stages, each without the stages inside it."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    def wrap(self, function: Callable[..., Any], label: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._inside.append(0.0)
            start = perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                took = perf_counter() - start
                self.spent[label] += took - self._inside.pop()
                if self._inside:
                    self._inside[-1] += took

        return timed


@contextmanager
def clocked(clock: Clock, stages: tuple[Stage, ...]) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, label in stages:
            wrapped = clock.wrap(getattr(owner, name), label)
            if name == "_expand_single_dim_strategy_to_mesh":
                wrapped = _returning_clocked(clock, getattr(owner, name), label)
            stack.enter_context(patch.object(owner, name, wrapped))
        yield


def _returning_clocked(clock: Clock, function: Callable[..., Any], label: str) -> Any:
    """torch makes a function first, and calls it then."""
    return lambda *args, **kwargs: clock.wrap(function(*args, **kwargs), label)


def rounds_of(
    call: Callable[[], Any], before: Callable[[], None], rounds: int, clock: Clock
) -> Any:
    """Per stage the medians over the rounds, in microseconds."""
    found: list[dict[str, float]] = []
    for _ in range(rounds):
        before()
        clock.spent.clear()
        clock.wrap(call, AROUND)()
        found.append({label: seconds * 1e6 for label, seconds in clock.spent.items()})
    labels = dict.fromkeys(label for each in found for label in each)
    return {label: statistics.median(each.get(label, 0.0) for each in found) for label in labels}


def table(of_case: dict[str, dict[str, float]]) -> str:
    """A row per stage, a column per case, and the sums."""
    labels = dict.fromkeys(label for stages in of_case.values() for label in stages)
    lines = ["| us | " + " | ".join(of_case) + " |", "|---|" + "---:|" * len(of_case)]
    for label in sorted(labels, key=lambda each: each == AROUND):
        cells = (f"{stages.get(label, 0.0):,.0f}" for stages in of_case.values())
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    sums = (f"**{sum(stages.values()):,.0f}**" for stages in of_case.values())
    return "\n".join([*lines, "| sum | " + " | ".join(sums) + " |"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mesh-dims", type=int, default=1, choices=list(MESHES))
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--cold", action="store_true", help="empty every cache before each round")
    options = parser.parse_args()
    dist.init_process_group("fake", rank=0, world_size=64)
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", MESHES[options.mesh_dims])
    before = forget if options.cold else _torch.forget_decisions
    calls = {name: make(mesh) for name, make in CASES.items() if "redistributes" not in name}
    for who, stages in (("torch", THEIRS), ("shardprop", OURS)):
        rounds = options.rounds if who == "shardprop" else max(3, options.rounds // 20)
        with ExitStack() as stack, torch.no_grad():
            clock = Clock()
            if who == "shardprop":
                propagate = clock.wrap(propagator._propagate, "all else")
                stack.enter_context(patch.object(propagator, "_propagate", propagate))
                stack.enter_context(shardprop.enabled())
            stack.enter_context(clocked(clock, stages))
            print(f"\n{who}, {options.mesh_dims}-D mesh\n")
            print(table({n: rounds_of(c, before, rounds, clock) for n, c in calls.items()}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
