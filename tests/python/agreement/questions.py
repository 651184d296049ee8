"""Calls of ops with their operands laid out on meshes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

from shardprop.propagation.route import Who, route_of

from ..parity.sketch import Problem, Sketch, map_leaves
from ..specs import P, R, S
from .samples import problems_of

__all__ = ["Question", "question_of", "questions_of"]

_MESHES = ((4,), (2, 2))


@dataclass(frozen=True)
class Question:
    """A call with specs in place of tensors."""

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    mesh: DeviceMesh

    def __str__(self) -> str:
        named = [f"{name}={value}" for name, value in self.kwargs.items()]
        text = ", ".join([*map(str, self.args), *named])
        return f"{self.op}({text}) on a mesh of {tuple(self.mesh.shape)}"


class _Layouts:
    """Gives one operand after the other its placements.

    Args:
        way: How: ``"first"`` shards the first operand on its first dim and ``"last"`` on its last
            one, ``"pending"`` leaves a sum of it pending, all others being replicated; ``"any"``
            draws each.
        mesh: Where the operands are.
        rng: What is drawn from.
    """

    WAYS = ("first", "any", "last", "pending")

    def __init__(self, way: str, mesh: DeviceMesh, rng: random.Random) -> None:
        self._way = way
        self._mesh = mesh
        self._rng = rng
        self._operands = 0

    def spec(self, sketch: Sketch) -> DTensorSpec:
        """The next operand."""
        placements = tuple(self._placement(mesh_dim, sketch) for mesh_dim in range(self._mesh.ndim))
        self._operands += 1
        meta = TensorMeta(torch.Size(sketch.shape), sketch.stride, sketch.dtype)
        return DTensorSpec(self._mesh, placements, tensor_meta=meta)

    def _placement(self, mesh_dim: int, sketch: Sketch) -> Placement:
        if self._way == "any":
            shards = [S(dim) for dim in range(sketch.ndim)]
            return self._rng.choice([R, *shards, *shards, P])
        # On the last mesh dim alone, so that on two dims an operand is not as even as on one.
        if self._operands or mesh_dim < self._mesh.ndim - 1:
            return R
        if self._way == "pending":
            return P
        if not sketch.ndim:
            return R
        return S(0 if self._way == "first" else sketch.ndim - 1)


# Operands of a decomposition that are tried in each of their placements together.
_MOST_TRIED = 4


def _takes_long(problem: Problem) -> bool:
    """Does torch take minutes to decide? It tries each operand of what it decomposes in each
    placement that it knows, together with all others: ``batch_norm_backward`` has eight."""
    is_tried = route_of(problem.op).who is Who.DECOMPOSITION
    return is_tried and len(problem.sketches()) > _MOST_TRIED


def question_of(op: OpOverload, mesh_of: Callable[..., DeviceMesh]) -> Question | None:
    """A question about an op, drawn from all there are, always the same one; None if there is none.

    `mesh_of` makes a mesh.
    """
    rng = random.Random(str(op))
    drawn = [
        (problem, mesh_of(*shape), way)
        for problem in problems_of(op)
        if not _takes_long(problem)
        for shape in _MESHES
        for way in _Layouts.WAYS
    ]
    if not drawn:
        return None
    problem, mesh, way = rng.choice(drawn)
    return _laid_out(problem, mesh, _Layouts(way, mesh, rng))


def questions_of(op: OpOverload, mesh: DeviceMesh) -> Iterator[Question]:
    """Every question about an op on a mesh, those that torch takes minutes for, too."""
    rng = random.Random(str(op))
    for problem in problems_of(op):
        for way in _Layouts.WAYS:
            yield _laid_out(problem, mesh, _Layouts(way, mesh, rng))


def _laid_out(problem: Problem, mesh: DeviceMesh, layouts: _Layouts) -> Question:
    args = tuple(map_leaves(Sketch, layouts.spec, arg) for arg in problem.args)
    named = {name: map_leaves(Sketch, layouts.spec, x) for name, x in problem.kwargs.items()}
    return Question(problem.op, args, named, mesh)
