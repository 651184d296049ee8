"""A plan for a whole model: a strategy for each op, and what that costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ..._torch import DeviceMesh, make_spec
from ..._torch.compiled_frames import Compiler
from ..._torch.joint_graphs import CAPTURING, JointGraph
from ...erasure import PASSES, Backend, LocalGraphs, Piece
from ...model.placements import Placements
from ...model.plan_steps import Step
from ...redistribution.optimal_planner import ExactPlanner
from ..graph.problem import Problem
from ..graph.solution import Solution
from .baselines import baselines
from .call_durations import CallDurations
from .chosen import only
from .compiled import GradientsMoved, PlannedCall, run_by
from .distributing import (
    check_is_of,
    check_is_same_everywhere,
    check_meet_everywhere,
    distribute,
    meet_everywhere,
)
from .labelled import Labelled
from .lowering import Part, lowered
from .memory import Optimizer, PlanMemory, plan_memory
from .moves import Volume, volume
from .plan_file import PlanDiff, PlanFile
from .program import Program, Ref
from .report import PlanReport, report_of
from .timeline import Timeline, timeline_of

__all__ = ["ModelPlacements", "ModelPlan", "Redistribution"]

# Those that clean the graphs, and whether a backward makes cheap calls again.
_Passes = tuple[tuple[str, ...], bool]


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
        steps: The exact plan, of which the price is that of the problem.
        run: Those of the steps that have to be run for it: the first ones may have been, for a
            reader before it on the same side of forward and backward.
    """

    tensor: Ref
    consumer: int
    operand: int
    src: Placements
    dst: Placements
    steps: tuple[Step, ...]
    run: tuple[Step, ...]

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
        device: The type of device that the model was traced for.
        memory_limit: Bytes that a rank may hold by the plan; None: any. What is proved is proved of
            such plans.
    """

    solution: Solution
    problem: Problem = field(repr=False)
    _labelled: Labelled = field(repr=False)
    _planner: ExactPlanner = field(repr=False)
    device: str = field(default="cpu", repr=False)
    memory_limit: float | None = None
    _graphs: dict[_Passes, tuple[JointGraph, LocalGraphs]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    # Do collectives begin in an order by prices, or in that of the program?
    _is_scheduled: bool = field(default=True, init=False, repr=False, compare=False)

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
        known: set[tuple[Ref, bool, tuple[Step, ...]]] = set()
        for node in self.program.nodes:
            wanted = self.wanted(node.index)
            for position, (ref, dst) in enumerate(zip(node.operands, wanted, strict=True)):
                src = self.given(ref.node)[ref.output]
                if src is None or src == dst:
                    continue
                steps = self._steps(ref, src, dst)
                begins = [(ref, node.backward, steps[: n + 1]) for n in range(len(steps))]
                run = tuple(x for x, begin in zip(steps, begins, strict=True) if begin not in known)
                known.update(begins)
                found.append(Redistribution(ref, node.index, position, src, dst, steps, run))
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
            total.add(volume(redistribution.run))
        return total

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was chosen for each node as JSON, for `Capture.load` and `PlanFile`.

        Raises:
            ShardpropError: it cannot be written.
        """
        PlanFile.of(self).save(path)

    def diff(self, other: ModelPlan) -> PlanDiff:
        """In what another plan of the same program differs from this one.

        Raises:
            ShardpropError: it is a plan of another program, or on another mesh.
        """
        return PlanFile.of(self).diff(PlanFile.of(other))

    def apply(self, model: nn.Module) -> nn.Module:
        """Distribute the parameters and buffers of the model; all ranks of the mesh have to.

        Each rank keeps its part of what rank 0 has. A parameter on the ``meta`` device stays there,
        as a DTensor. Parameters are new objects: make the optimizer afterwards.

        Args:
            model: The one that was captured, or one with the same parameters; changed in place.

        Returns:
            The same model.

        Raises:
            ShardpropError: another model, or not the same plan on every rank.
        """
        self._check_may_run(model)
        distribute(model, self.program, self, self.mesh)
        return model

    def _check_may_run(self, model: nn.Module) -> None:
        check_is_of(model, self.program, self.mesh)
        check_is_same_everywhere(self.program, self, self.mesh)

    def compile(
        self,
        model: nn.Module,
        *,
        passes: Sequence[str] = PASSES,
        compiler: Compiler | str | None = None,
        recompute: bool = False,
    ) -> nn.Module:
        """Distribute the model, and have its calls run by the plan, forward and backward.

        They run what `erase` would make of a program of DTensors that does as planned: local ops
        and the plan's collectives, in one autograd function. The model takes whole tensors, the
        same on every rank, or DTensors, and returns DTensors. Names, parameters, ``state_dict`` and
        the hooks of the model itself stay; hooks of its submodules are part of what was captured. A
        copy of it runs by the plan, too; one that is saved as a whole is saved without.

        A call of another kind than was captured is refused: other shapes or dtypes, modules in
        another mode, other arguments that are no tensors, or another autocast. A model may be
        compiled by several plans, one for each kind, which have its parameters in the same places.

        Args:
            model: As for `apply`.
            passes: What cleans the local graphs; see `shardprop.erase`.
            compiler: What makes functions of them; likewise.
            recompute: Keep less for the backward; likewise.

        Returns:
            The same model.

        Raises:
            ShardpropError: another model, not the same plan on every rank, an op that cannot be
                carried out as planned, or an unknown pass or compiler. Then the model is as it was.
        """
        self._check_may_run(model)
        joint, run, graphs = self._local(passes, compiler, recompute, self.mesh)
        if not meet_everywhere(graphs, self.mesh):
            # Where ranks hold unlike parts, one may need a copy that another does not.
            self._is_scheduled = False
            self._graphs.clear()
            joint, run, graphs = self._local(passes, compiler, recompute, self.mesh)
            check_meet_everywhere(graphs, self.mesh)
        call = PlannedCall(self.program, joint, run, self._planner)
        distribute(model, self.program, self, self.mesh)
        run_by(model, call)
        return model

    def memory(
        self,
        optimizer: Optimizer | None = None,
        *,
        passes: Sequence[str] = PASSES,
        recompute: bool = False,
    ) -> PlanMemory:
        """What the rank that holds most, the first of the mesh, holds while the model is trained by
        the plan, from the graphs that `compile` makes there. Nothing runs.

        Args:
            optimizer: Takes parameters, as ``torch.optim.AdamW`` does; None: there is none. A step
                of it is taken on tensors without data.
            passes: As for `compile`.
            recompute: Likewise.

        Raises:
            ShardpropError: an op cannot be carried out as planned, or the optimizer takes no step
                on tensors without data.
        """
        joint, graphs = self._of_first_rank(passes, recompute)
        return plan_memory(self.program, joint, graphs, optimizer)

    def timeline(self, *, passes: Sequence[str] = PASSES, recompute: bool = False) -> Timeline:
        """A step by the plan under its model of costs, with collectives beside the ops: when each
        call of the graphs that `compile` makes begins, and what it takes. Nothing runs.

        Args:
            passes: As for `compile`.
            recompute: Likewise.

        Raises:
            ShardpropError: an op cannot be carried out as planned.
        """
        _, graphs = self._of_first_rank(passes, recompute)
        return timeline_of(graphs, self._durations)

    @cached_property
    def _durations(self) -> CallDurations:
        runs: dict[tuple[Ref | None, bool, tuple[Step, ...]], tuple[Step, ...]] = {}
        for each in self.redistributions:
            backward = self.program.nodes[each.consumer].backward
            runs.setdefault((each.tensor, backward, each.steps), each.run)

        def run(part: Part) -> tuple[Step, ...]:
            return runs.get((part.moved, part.backward, part.steps), part.steps)

        return CallDurations(self.compute_us, run)

    def _of_first_rank(
        self, passes: Sequence[str], recompute: bool
    ) -> tuple[JointGraph, LocalGraphs]:
        """What runs on the first rank of the mesh; it takes as long to make as to compile."""
        key = tuple(passes), recompute
        if key not in self._graphs:
            mesh = self._labelled.mesh_of_first_rank
            joint, _, graphs = self._local(passes, None, recompute, mesh)
            self._graphs[key] = joint, graphs
        return self._graphs[key]

    def _local(
        self,
        passes: Sequence[str],
        compiler: Compiler | str | None,
        recompute: bool,
        mesh: DeviceMesh,
    ) -> tuple[JointGraph, Callable[..., Any], LocalGraphs]:
        """What runs on a rank of the mesh."""
        backend = Backend(
            passes,
            compiler,
            recompute=recompute,
            keep_graphs=True,
            durations=self._durations if self._is_scheduled else None,
        )
        with CAPTURING:
            joint = lowered(self.program, self, mesh, self._planner, self.device)
        piece = Piece("a plan")
        run = backend.local(joint, piece, GradientsMoved())
        assert piece.local is not None
        return joint, run, piece.local

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
