"""Problems taken from what torch's sample inputs call: the other source beside the builders.

The calls are recorded before the first is drawn, by child processes (`opinfo_recorder`), and kept
for later runs. A call keeps its arguments; its tensors may be stretched, so that sizes vary
more than torch's samples do.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import multiprocessing
import pickle
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode

from ..checkout import ROOT
from ..quiet import quiet
from .builders import fake_outputs
from .dice import Dice
from .op_choice import UNREACHABLE
from .opinfo_recorder import PASSES, RecordedCall, record
from .processes import environment
from .registry import Rule, find_op, rule_of
from .sketch import Problem, Sketch, leaves, map_leaves

# How often an op is drawn, by what decides it. Where torch knows neither rule nor decomposition it
# says so, which leaves little to compare.
_WEIGHT = {Rule.SINGLE_DIM: 1.0, Rule.FULL_MESH: 3.0, Rule.DECOMPOSITION: 1.0, Rule.NONE: 0.1}


class Library:
    """What was recorded, by op; without the ops that torch can never decide."""

    def __init__(self, calls: list[RecordedCall], failed: dict[str, str]) -> None:
        self.calls = calls
        self.failed = failed  # OpInfos without a single call, each with the reason
        self.by_op: dict[OpOverload, list[RecordedCall]] = {}
        for call in calls:
            if call.op not in UNREACHABLE:
                self.by_op.setdefault(find_op(call.op), []).append(call)
        self._by_rule: dict[Rule, list[OpOverload]] = {rule: [] for rule in Rule}
        for op in self.by_op:
            self._by_rule[rule_of(op)].append(op)
        self._stretches: dict[int, bool] = {}

    def __reduce__(self) -> Any:
        return Library, (self.calls, self.failed)  # ops themselves cannot be sent to a process

    def pick_op(self, rng: random.Random, rule: Rule | None = None) -> OpOverload:
        """A recorded op, of the given kind of rule if one is given."""
        if rule is None:
            weights = [_WEIGHT[rule] * len(ops) for rule, ops in self._by_rule.items()]
            rule = rng.choices(list(self._by_rule), weights)[0]
        return rng.choice(self._by_rule[rule])

    def problem(self, op: OpOverload, dice: Dice) -> Problem:
        """A recorded call of the op, stretched every other time where that is possible."""
        call = dice.pick(self.by_op[op])
        problem = Problem(op, call.args, call.kwargs)
        if dice.chance(0.5) and self._can_stretch(call, problem):
            return stretched(problem, dice.pick((2, 3, 4, 8, 16)))
        return problem

    def _can_stretch(self, call: RecordedCall, problem: Problem) -> bool:
        """Whether the arguments that are no tensors suit larger tensors too."""
        if id(call) not in self._stretches:
            self._stretches[id(call)] = _takes(stretched(problem, 2))
        return self._stretches[id(call)]


_provided: list[Library] = []


def library() -> Library:
    """The library of this process; recorded now if none was provided."""
    if not _provided:
        provide(_record())
    return _provided[-1]


def provide(made: Library) -> None:
    """Gives this process what another one recorded."""
    _provided[:] = [made]


def _record() -> Library:
    """Recorded once for all processes that test this tree, and kept in build/."""
    folder = ROOT / "build" / "parity"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"recorded-{_inputs()}.pickle"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            made = kept.with_suffix(".new")
            made.write_bytes(pickle.dumps(_recorded_now()))
            made.replace(kept)
    found: Library = pickle.loads(kept.read_bytes())
    return found


def _inputs() -> str:
    """Names what a recording depends on: the Python and torch that record, and this package."""
    state = hashlib.sha256(f"{sys.version} {torch.__version__}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        state.update(source.read_bytes())
    return state.hexdigest()[:16]


def _recorded_now() -> Library:
    # What the database generates may depend on the order of sets.
    with environment("PYTHONHASHSEED", "0"):
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            recordings = list(pool.map(record, PASSES))
    calls = {str(call): call for recording in recordings for call in recording.calls}
    failed = dict(recordings[0].failed)
    for recording in recordings[1:]:
        failed = {name: reason for name, reason in failed.items() if name in recording.failed}
    return Library(list(calls.values()), failed)


def _takes(problem: Problem) -> bool:
    """Whether torch takes the call and writes to what it is given without resizing it."""
    # torch 2.13's rule for views never comes to an end for a view of an empty tensor to sizes that
    # only its empty dim makes fit, such as (0, 4, 4) to (0, 2, 2).
    if any(0 in sketch.shape for sketch in problem.sketches()):
        return False
    # Without a fake kernel torch runs the real one: not on large tensors.
    mode = FakeTensorMode(allow_fallback_kernels=False)
    with quiet():
        try:
            results = list(leaves(Sketch, fake_outputs(problem, mode)))
        except Exception:  # any refusal
            return False
    outs = [problem.kwargs[a.name] for a in problem.op._schema.arguments if a.is_out]
    shapes = [out.shape for out in leaves(Sketch, outs)]
    return not shapes or shapes == [result.shape for result in results]


def stretched(problem: Problem, factor: int) -> Problem:
    """The same call with every dim of a tensor, if not of size 1, `factor` times as long."""
    args = tuple(map_leaves(Sketch, functools.partial(_stretch, factor), a) for a in problem.args)
    kwargs = {
        name: map_leaves(Sketch, functools.partial(_stretch, factor), value)
        for name, value in problem.kwargs.items()
    }
    return Problem(problem.op, args, kwargs, problem.foreign)


def _stretch(factor: int, sketch: Sketch) -> Sketch:
    shape = tuple(size * factor if size > 1 else size for size in sketch.shape)
    # The dims lie in memory in the same order; those of stride 0 are expanded and stay so.
    stride = [0] * sketch.ndim
    step = 1
    for dim in sorted(range(sketch.ndim), key=lambda d: (sketch.stride[d], -d)):
        if sketch.stride[dim]:
            stride[dim] = step
            step *= max(shape[dim], 1)
    return Sketch(shape, sketch.dtype, tuple(stride))
