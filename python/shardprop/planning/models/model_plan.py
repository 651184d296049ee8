"""A plan for a whole model: a strategy for each op, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ..._torch import DeviceMesh, make_spec
from ...model.placements import Placements
from ...model.plan_steps import Step
from ...propagation import propagator
from ...redistribution.optimal_planner import ExactPlanner
from ..graph.problem import Problem
from ..graph.solution import Solution
from .baselines import baselines
from .boundaries import only
from .distributing import distribute
from .labelled import Labelled
from .moves import Mover, Volume, volume
from .planned_ops import PlannedOps
from .program import Program, Ref
from .report import PlanReport, report_of

__all__ = ["ModelPlacements", "ModelPlan", "Redistribution"]


@dataclass(frozen=True)
class ModelPlacements:
    """Where the tensors of a model lie.

    Attributes:
        parameters: By name; their gradients are placed like them.
        buffers: By name.
        inputs: Per tensor among the inputs.
        outputs: Per tensor among the outputs; their gradients are placed like them.
    """

    parameters: Mapping[str, Placements]
    buffers: Mapping[str, Placements]
    inputs: tuple[Placements, ...]
    outputs: tuple[Placements, ...]


@dataclass(frozen=True)
class Redistribution:
    """A tensor that is brought from where it was made to where it is read.

    Attributes:
        tensor: The tensor.
        consumer: The index of the node that reads it.
        operand: Which of its operands it is.
        src: Placements it is made with.
        dst: Placements it is read with.
        steps: The exact plan.
    """

    tensor: Ref
    consumer: int
    operand: int
    src: Placements
    dst: Placements
    steps: tuple[Step, ...]

    @property
    def us(self) -> float:
        """Microseconds in all."""
        return sum(step.us for step in self.steps)


@dataclass
class ModelPlan:
    """The strategies that were chosen, and what carries them out.

    Attributes:
        solution: The solver's answer; its labels are the strategies.
        problem: What was solved.
    """

    solution: Solution
    problem: Problem = field(repr=False)
    _labelled: Labelled = field(repr=False)
    _planner: ExactPlanner = field(repr=False)
    _rules: str = field(default="complete", repr=False)

    @property
    def program(self) -> Program:
        """What was planned."""
        return self._labelled.program

    @property
    def mesh(self) -> DeviceMesh:
        """On which mesh."""
        return self._labelled.mesh

    @property
    def cost_us(self) -> float:
        """Microseconds of the whole program on one rank: ops and redistributions, one after the
        other."""
        return self.solution.objective

    @cached_property
    def compute_us(self) -> NDArray[np.float64]:
        """Microseconds of the op of each node."""
        labels = self.solution.labels
        return np.array(
            [c.compute_us[i] for c, i in zip(self._labelled.candidates, labels, strict=True)]
        )

    def given(self, node: int) -> tuple[Placements | None, ...]:
        """Per output of a node its placements; None for one that is absent."""
        return self._labelled.given(node, self.solution.labels[node])

    def wanted(self, node: int) -> tuple[Placements, ...]:
        """Per operand of a node its placements."""
        return self._labelled.wanted(node, self.solution.labels[node])

    def runs_whole(self, node: int) -> bool:
        """Does the op of the node run on whole tensors, as it has no strategies?"""
        return self._labelled.candidates[node].whole

    def placements(self) -> ModelPlacements:
        """Where parameters, buffers, inputs and outputs lie."""
        of, program = partial(only, self), self.program
        return ModelPlacements(
            parameters={name: of(node) for name, node in program.parameters.items()},
            buffers={name: of(node) for name, node in program.buffers.items()},
            inputs=tuple(map(of, program.inputs)),
            outputs=tuple(map(of, program.outputs)),
        )

    @cached_property
    def redistributions(self) -> list[Redistribution]:
        """All of them, in the order of the ops that read the tensors."""
        found = []
        for node in self.program.nodes:
            wanted = self.wanted(node.index)
            for position, (ref, dst) in enumerate(zip(node.operands, wanted, strict=True)):
                src = self.given(ref.node)[ref.output]
                if src is not None and src != dst:
                    steps = self._steps(ref, src, dst)
                    found.append(Redistribution(ref, node.index, position, src, dst, steps))
        return found

    def _steps(self, ref: Ref, src: Placements, dst: Placements) -> tuple[Step, ...]:
        meta = self.program.meta(ref)
        ends = (make_spec(self.mesh, placements, meta) for placements in (src, dst))
        return tuple(self._planner.steps(*ends) or ())

    @cached_property
    def volume(self) -> Volume:
        """Redistributions, collectives and bytes of one pass, forward and backward."""
        total = Volume()
        for redistribution in self.redistributions:
            total.add(volume(redistribution.steps))
        return total

    @cached_property
    def mover(self) -> Mover:
        """What carries out the redistributions; it counts them."""
        return Mover(self._planner)

    @cached_property
    def ops(self) -> PlannedOps:
        """What recognises the ops of the program; it counts those that are not part of it."""
        return PlannedOps(self.program, self, self.mesh, self.mover)

    def apply(self, model: nn.Module) -> nn.Module:
        """Distribute the parameters and buffers of the model; all ranks of the mesh have to.

        The model then takes whole tensors, the same on every rank, or DTensors, and returns
        DTensors. Run it, and its backward pass, in `running()`. A parameter on the ``meta`` device
        stays there, as a DTensor.

        Args:
            model: The one that was captured, or one with the same parameters; changed in place.

        Returns:
            The same model.

        Raises:
            ShardpropError: another model.
        """
        distribute(model, self.program, self, self.mesh, self.mover, self.ops)
        return model

    @contextmanager
    def running(self) -> Iterator[None]:
        """The ops of the model, forward and backward, follow the plan in the block.

        Outside of it they are decided one by one, as in any program. A plan with rows of the rule
        book needs policy ``"optimal"`` with ``rules="complete"``, any plan that shardprop is
        enabled. Where that is not so the block puts policy ``"optimal"`` in force, under the
        topology of the plan; to enter it and to leave it then has all decisions forgotten.
        """
        with self._all_rows_known(), self.ops:
            yield

    def _all_rows_known(self) -> AbstractContextManager[None]:
        enough = self._rules == "torch" or propagator.current_policy().completes
        if propagator.is_enabled() and enough:
            return nullcontext()
        terms = propagator.current_terms()
        return propagator.enabled(
            policy="optimal",
            topology=self._planner.topology,
            rules=self._rules,
            strict=terms.strict,
            executor=terms.executor,
            without_rule=terms.without_rule,
        )

    def report(self, *, depth: int | None = 2, time_limit: float | None = 60.0) -> PlanReport:
        """What the plan does by module, beside what well-known ways to shard cost.

        Args:
            depth: How many names of a module's path count; None: all.
            time_limit: Seconds to solve each of the others.

        Raises:
            ShardpropError: as `shardprop.graph.solve`.
        """
        found = baselines(self.problem, self._labelled, time_limit)
        others = {
            each.name: None if each.solution is None else replace(self, solution=each.solution)
            for each in found
        }
        why_not = {each.name: each.why for each in found if each.solution is None}
        return report_of(self, others, why_not, depth)
