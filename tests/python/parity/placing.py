"""Draws the layouts of a problem's operands together, so that they are worth deciding about."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from torch.distributed.tensor import Replicate
from torch.distributed.tensor.placement_types import Placement, _StridedShard

from .guide import Group, guided
from .layouts import Kind, Layout, draw_layout, draw_placements, twist
from .meshes import MeshKey, draw_mesh
from .registry import Form, form_of
from .sketch import Problem, Sketch, leaves


class Placer:
    """Draws one layout per operand of a problem."""

    def __init__(
        self,
        rng: random.Random,
        mesh: MeshKey,
        problem: Problem,
        groups: Sequence[Group],
        tied: set[int],
        kind: Kind,
        source: str,
    ) -> None:
        self.rng = rng
        self.mesh = mesh
        self.problem = problem
        self.groups = groups
        self.kind = kind
        self.source = source
        self.sketches = problem.sketches()
        self.tied = tied

    def draw(self) -> list[Layout]:
        layouts: dict[int, Layout] = {}
        meshes = self._group_meshes()
        for group, mesh in zip(self.groups, meshes, strict=True):
            drawn = self._draw_group(group, mesh)
            for operand, layout in zip(group.operands, drawn, strict=True):
                layouts.setdefault(operand, layout)
        result = [layouts[i] for i in range(len(self.sketches))]
        result = self._place_foreign(result)
        if self.rng.random() < 0.006 and len(result) > 1:
            # Operands that do not share a mesh: torch refuses, and we must with the same words.
            odd = self.rng.randrange(len(result))
            other = draw_mesh(self.rng, result[odd].mesh.ndim)
            result[odd] = replace(result[odd], mesh=other)
        return result

    def _group_meshes(self) -> list[MeshKey]:
        """List ops may hold parameters of different meshes."""
        meshes = [self.mesh] * len(self.groups)
        if len(meshes) > 1 and self.rng.random() < 0.15:
            other = draw_mesh(self.rng, self.rng.choice((1, self.mesh.ndim)))
            meshes = [self.rng.choice((self.mesh, other)) for _ in meshes]
        return meshes

    def _draw_group(self, group: Group, mesh: MeshKey) -> list[Layout]:
        rng = self.rng
        strided = self.kind in (Kind.STRIDED_ORDER, Kind.STRIDED_VIEW)
        factors: list[int | None] = [None]
        if strided and rng.random() < 0.6:
            factors.append(rng.choice([2, 3, *(size for size in mesh.sizes if size > 1)]))
        flag = self.kind is Kind.STRIDED_ORDER
        shapes = [self.sketches[operand].shape for operand in group.operands]
        fitting = rng.random() < (0.9 if self.tied else 0.6)
        placed = guided(rng, group, mesh, shapes, factors, fitting)
        layouts = [_layout(mesh, placements, flag) for placements in placed]
        for i, operand in enumerate(group.operands):
            tied = operand in self.tied and rng.random() < 0.93
            if not tied and self._is_free():
                layouts[i] = draw_layout(rng, self.sketches[operand].ndim, mesh)
        self._twist_some(group, layouts)
        if len(layouts) > 1 and rng.random() < 0.08:
            # x * x: operands that are alike.
            i, j = rng.sample(range(len(layouts)), 2)
            ndims = [self.sketches[group.operands[k]].ndim for k in (i, j)]
            if ndims[0] == ndims[1]:
                layouts[j] = layouts[i]
        return layouts

    def _is_free(self) -> bool:
        """Whether to leave the rule's rows for an operand."""
        match self.source:
            case "free":
                return True
            case "nearly rows":
                return self.rng.random() < 0.4
        return False

    def _twist_some(self, group: Group, layouts: list[Layout]) -> None:
        """Makes the case of its kind: one operand or more, tied ones seldom."""
        if self.kind is Kind.PLAIN or any(layout.kind is self.kind for layout in layouts):
            return
        order = list(range(len(layouts)))
        self.rng.shuffle(order)
        order.sort(key=lambda i: group.operands[i] in self.tied)
        for count, i in enumerate(order):
            if count and self.rng.random() < 0.6:
                continue
            ndim = self.sketches[group.operands[i]].ndim
            layouts[i] = twist(self.rng, ndim, layouts[i], self.kind)

    def _place_foreign(self, layouts: list[Layout]) -> list[Layout]:
        """Arguments that may live on another mesh do so every other time, replicated as they must
        (one in twenty is not)."""
        if not self.problem.foreign or self.rng.random() < 0.5:
            return layouts
        other = draw_mesh(self.rng, 1)
        start = 0
        for position, arg in enumerate(self.problem.args):
            count = len(list(leaves(Sketch, arg)))
            if position in self.problem.foreign:
                for i in range(start, start + count):
                    replicated = (Replicate(),) * other.ndim
                    odd = self.rng.random() < 0.05
                    placements = draw_placements(self.rng, 0, other) if odd else replicated
                    layouts[i] = Layout(other, placements)
            start += count
        return layouts


def _layout(mesh: MeshKey, placements: tuple[Placement, ...], flag: bool) -> Layout:
    has_strided = any(isinstance(p, _StridedShard) for p in placements)
    return Layout(mesh, placements, strided_is_order=flag if has_strided else None)


def tied_operands(problem: Problem, groups: list[Group]) -> set[int]:
    """Operands that torch refuses to redistribute: the first one of an in-place op and out tensors.

    By torch's reading an op is in-place if its name ends with an underscore.
    """
    tied: set[int] = set()
    if problem.op._schema.name.endswith("_"):
        tied = {group.operands[0] for group in groups if group.operands}
    if form_of(problem.op) is Form.OUT:
        outs = {argument.name for argument in problem.op._schema.arguments if argument.is_out}
        start = sum(1 for _ in leaves(Sketch, problem.args))
        for name, value in problem.kwargs.items():
            count = sum(1 for _ in leaves(Sketch, value))
            if name in outs:
                tied.update(range(start, start + count))
            start += count
    return tied
