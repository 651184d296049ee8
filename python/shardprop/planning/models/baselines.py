"""What well-known ways to shard a model cost, each at its best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..._torch import Placement, Replicate, Shard
from ...model.placements import Placements
from ..graph.errors import InfeasibleError, UnsolvedError
from ..graph.problem import Problem
from ..graph.solution import Solution
from ..graph.solving import solve
from .labelled import Labelled
from .user_constraints import input_constraint, is_about_parameters

__all__ = ["Baseline", "baselines"]


class Baseline(NamedTuple):
    """A way to shard, and its best plan.

    Attributes:
        name: What it is like.
        solution: The best plan of that kind; None if there is none.
        why: Why there is none; empty if there is one.
    """

    name: str
    solution: Solution | None
    why: str


def baselines(
    problem: Problem, labelled: Labelled, time_limit: float | None = None
) -> list[Baseline]:
    """Data parallel, FSDP-like and Megatron-like, priced as the plan is.

    Only where parameters and inputs lie is fixed; all else is chosen at the least cost, so that a
    baseline costs no more than a program of its kind does. Inputs are sharded on their dim 0, the
    batch; a parameter that cannot be sharded as its kind wants is replicated on that mesh dim.
    What the problem says of the memory of parameters does not bind a baseline.

    Args:
        problem: Of the program.
        labelled: The program; Megatron-like shards parameters over the last dim of its mesh.
        time_limit: Seconds for each.
    """
    mesh = labelled.mesh
    everywhere = range(mesh.ndim)
    kinds: list[tuple[str, Sequence[int], Callable[[int], list[list[Placement]]]]] = [
        ("data parallel", everywhere, lambda _: [[Replicate()] * mesh.ndim]),
        ("FSDP-like", everywhere, lambda _: [[Shard(0)] * mesh.ndim]),
    ]
    if mesh.ndim > 1:
        kinds.append(("Megatron-like", range(mesh.ndim - 1), lambda d: _megatron(d, mesh.ndim)))
    free = problem.without([name for name in problem.constraints if is_about_parameters(name)])
    return [_best(free, name, labelled, over, wanted, time_limit) for name, over, wanted in kinds]


def _megatron(dims: int, mesh_dims: int) -> list[list[Placement]]:
    """A matrix by its rows or by its columns over the last mesh dim."""
    whole: list[Placement] = [Replicate()] * (mesh_dims - 1)
    return [[*whole, Shard(dim)] for dim in range(dims if dims > 1 else 0)]


def _best(
    problem: Problem,
    name: str,
    labelled: Labelled,
    batch_over: Sequence[int],
    wanted: Callable[[int], list[list[Placement]]],
    time_limit: float | None,
) -> Baseline:
    kind, program = problem.copy(), labelled.program
    try:
        for node in program.parameters.values():
            labels = _parameter_labels(labelled, node, wanted)
            kind.allow(node, labels, name=f"{name}: {program.nodes[node].name}")
        for node in program.inputs:
            labels = _batch_labels(labelled.offered(node), batch_over)
            if input_constraint(program.nodes[node].name) not in kind.constraints:
                kind.allow(node, labels, name=f"{name}: {program.nodes[node].name}")
        return Baseline(name, solve(kind, time_limit=time_limit), "")
    except (InfeasibleError, UnsolvedError) as error:
        return Baseline(name, None, str(error))


def _parameter_labels(
    labelled: Labelled,
    node: int,
    wanted: Callable[[int], list[list[Placement]]],
) -> list[int]:
    """As the kind wants it, else whole."""
    meta, layouts = labelled.program.nodes[node].outputs[0], labelled.offered(node)
    ways = {tuple(placements) for placements in wanted(len(meta.shape) if meta is not None else 0)}
    labels = [label for label, layout in enumerate(layouts) if layout in ways]
    return labels or [
        i for i, layout in enumerate(layouts) if all(p.is_replicate() for p in layout)
    ]


def _batch_labels(layouts: Sequence[Placements], over: Sequence[int]) -> list[int]:
    """The batch sharded over as many of the mesh dims as it can be, from the first on."""
    for count in range(len(over), -1, -1):
        cut = over[:count]
        labels = [label for label, layout in enumerate(layouts) if _shards_batch(layout, cut)]
        if labels:
            return labels
    return []


def _shards_batch(layout: Placements, over: Sequence[int]) -> bool:
    return all(
        placement == Shard(0) if mesh_dim in over else placement.is_replicate()
        for mesh_dim, placement in enumerate(layout)
    )
