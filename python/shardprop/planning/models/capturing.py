"""A model captured: traced, with the strategies of its ops and the problem that they make."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from ..._torch import DeviceMesh, Placement
from ...cost.compute import ComputeCost
from ...errors import ShardpropError
from ...propagation.policy_settings import TopologyLike, exact_planner
from ...redistribution.optimal_planner import ExactPlanner
from ...rules.book.completed import reads_the_book
from ...support.numbers import is_finite_number
from ..graph.problem import Problem
from ..graph.solution import Solution
from ..graph.solving import solve
from .building import build
from .candidates import CandidatesOf
from .labelled import Labelled
from .memory import Optimizer
from .memory_bound import MemoryBound, solve_within
from .missing_rules import register_missing_rules
from .model_plan import ModelPlan
from .overlap import solve_overlapped
from .plan_file import PlanFile
from .plan_loading import solution_of
from .program import Program
from .reading import read
from .tracing import trace
from .user_constraints import UserConstraints

__all__ = ["Capture", "capture"]


@dataclass
class Capture:
    """A model as a problem.

    Attributes:
        program: The forward and backward pass.
        problem: One label for each of its nodes; add to it what else must hold.
        mesh: The mesh it is planned for.
        without_rule: Per op that has no strategies, and so runs on whole tensors, why.
        cannot_run: Per op how many strategies were left out, for on what some rank would hold the
            op raises, or gives something else than they say.
        seconds: How long each part of the capture took.
        labelled: What each label of a node stands for.
    """

    program: Program
    problem: Problem
    mesh: DeviceMesh
    without_rule: dict[str, str]
    cannot_run: dict[str, int]
    seconds: dict[str, float]
    labelled: Labelled = field(repr=False)
    _planner: ExactPlanner = field(repr=False)
    _device: str = field(default="cpu", repr=False)

    def solve(
        self,
        *,
        time_limit: float | None = 60.0,
        memory: float | None = None,
        optimizer: Optimizer | None = None,
        overlap: bool = False,
        **settings: Any,
    ) -> ModelPlan:
        """The best plan, with a proof unless the time limit comes first.

        Args:
            time_limit: Seconds; None for as long as it takes. When it is over, the best plan so far
                is returned; how far it may be from the best is in `ModelPlan.solution`.
            memory: Bytes that a rank may hold while the model is trained: the peak that
                `ModelPlan.memory` says. The plan is then the best that was found. What is proved
                of it comes from what is held all the time, and is mostly far from it.
            optimizer: For `memory`: takes parameters, as ``torch.optim.AdamW`` does; None: there is
                none. What it keeps for one has to depend on that one alone.
            overlap: Look for a plan of which a step takes least by `ModelPlan.timeline`, where
                redistributions run beside ops, instead of one that costs least with one after
                another. It is the best of a few, for each of which graphs are made.
            **settings: Others of `shardprop.graph.solve`. With `memory`, `relative_gap` is 0.001 if
                it is not given.

        Raises:
            InfeasibleError: no plan does what was wished.
            UnsolvedError: no plan was found, in time or at all.
            ShardpropError: as `shardprop.graph.solve`; or as `ModelPlan.memory`, of an optimizer.
        """
        if memory is None and optimizer is not None:
            raise ShardpropError("optimizer: Expected one with memory=, got it alone.")
        solve_one: Callable[..., Solution] = solve
        if memory is not None:
            _check_bytes("memory", memory)
            bound = MemoryBound(
                self.labelled,
                float(memory),
                optimizer,
                lambda solution: self.plan(solution).memory(optimizer),
            )
            solve_one = partial(solve_within, bound=bound)
        if overlap:
            solve_one = partial(
                solve_overlapped,
                program=self.program,
                step_us=lambda solution: self.plan(solution).timeline().us,
                solve=solve_one,
            )
        found = solve_one(self.problem, time_limit=time_limit, **settings)
        return replace(self.plan(found), memory_limit=None if memory is None else float(memory))

    def load(self, path: str | os.PathLike[str]) -> ModelPlan:
        """The plan that `ModelPlan.save` wrote, without a solve.

        Its cost is that of this capture. What was proved of it counts if the problem is the same:
        prices, wishes, and what was added to it.

        Args:
            path: The file.

        Raises:
            ShardpropError: it cannot be read, is of another program or mesh, has a strategy that is
                not offered here, or breaks what is wished; file and node are named.
        """
        found = PlanFile.load(path)
        return self.plan(solution_of(found, self.problem, self.labelled, str(path)))

    def plan(self, solution: Solution) -> ModelPlan:
        """What a solution of the problem means for the model."""
        of = self.problem, self.labelled, self._planner, self._device
        return ModelPlan(solution, *of)


def capture(
    model: nn.Module,
    example_inputs: Sequence[Any],
    mesh: DeviceMesh,
    *,
    topology: TopologyLike,
    example_kwargs: Mapping[str, Any] | None = None,
    inputs: Sequence[Sequence[Placement] | None] | None = None,
    outputs: Sequence[Sequence[Placement] | None] | None = None,
    parameters: Mapping[str, Sequence[Placement]] | None = None,
    parameter_memory: float | None = None,
    rules: str = "complete",
    strided: bool = True,
    backward: bool = True,
    device: str | None = None,
) -> Capture:
    """Trace a model and build the problem of sharding it, without running anything.

    Args:
        model: On any device, ``meta`` too.
        example_inputs: What it is called with; tensors of the whole (not of one rank), on any
            device: only shapes and dtypes are read.
        mesh: On which mesh to plan. Only its shape matters, and which of its dims are flattened:
            planning communicates nothing.
        topology: What collectives, local work and ops cost, as `shardprop.enable` takes it; it has
            to say what ops cost (its part ``compute``).
        example_kwargs: What it is called with by name.
        inputs: Per tensor among the inputs its placements, or None for any.
        outputs: Per tensor among the outputs, likewise. Its gradient is placed like it.
        parameters: Placements by name or pattern (``layers.*.weight``).
        parameter_memory: Bytes of parameters that a rank may hold.
        rules: ``"complete"``: with the rows of the rule book (docs/rule-book.md); ``"torch"``:
            those of torch's rules alone.
        strided: Consider strategies with `_StridedShard`.
        backward: Plan the backward pass as well.
        device: The type of device to trace for; None: that of the mesh where it is there, else
            ``cpu``. It decides which kernel attention takes. torch has no rule for that of the CPU,
            nor for copies that stand for writes into parts of tensors: where the model comes to
            one, ours is registered, as by `register_single_dim_rule`.

    Raises:
        ShardpropError: the model writes into its inputs or parameters, or what it does depends on
            the values of tensors; no output has a gradient; the topology has a fault or no part
            ``compute``; a wish fits no tensor; or `rules` is neither of the two.
        Exception: what the model raises.
    """
    began = time.perf_counter()
    seconds: dict[str, float] = {}

    def passed(part: str) -> None:
        nonlocal began
        now = time.perf_counter()
        seconds[part], began = now - began, now

    _check(model, example_inputs, mesh, parameter_memory)
    reads_the_book(rules)
    planner = exact_planner(topology)
    compute = ComputeCost(planner.topology)
    kind = device or _traceable(mesh.device_type)
    program = read(trace(model, example_inputs, example_kwargs or {}, kind, backward))
    passed("trace")
    register_missing_rules(node.op for node in program.nodes)
    finder = CandidatesOf(program, mesh, compute, strided, rules)
    labelled = Labelled(program, finder.all(), finder.layouts, mesh)
    passed("strategies")
    constraints = UserConstraints(inputs, outputs, parameters, parameter_memory)
    problem = build(labelled, planner, constraints)
    passed("prices")
    return Capture(
        program,
        problem,
        mesh,
        finder.without_rule,
        finder.cannot_run,
        seconds,
        labelled,
        planner,
        kind,
    )


def _check(model: object, inputs: object, mesh: object, memory: object) -> None:
    if not isinstance(model, nn.Module):
        raise ShardpropError(f"model: Expected an nn.Module, got a {type(model).__name__}.")
    if not isinstance(inputs, (list, tuple)):
        raise ShardpropError(
            f"example_inputs: Expected a tuple of arguments, got a {type(inputs).__name__}."
        )
    if not isinstance(mesh, DeviceMesh):
        raise ShardpropError(f"mesh: Expected a DeviceMesh, got a {type(mesh).__name__}.")
    if memory is not None:
        _check_bytes("parameter_memory", memory)


def _check_bytes(name: str, given: object) -> None:
    if not is_finite_number(given) or given <= 0:
        raise ShardpropError(f"{name}: Expected bytes above 0, an int or a float, got {given!r}.")


def _traceable(device_type: str) -> str:
    """Fake tensors of a device that is not there cannot be called."""
    if device_type == "cuda" and not torch.cuda.is_available():
        return "cpu"
    return device_type
