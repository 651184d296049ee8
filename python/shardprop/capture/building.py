"""The problem of a program: a label for each node, prices on the edges, what belongs together."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._torch import DeviceMesh, Placement, Shard, TensorMeta
from ..errors import ShardpropError
from ..exact import ExactPlanner
from ..full_mesh import LayoutTable
from ..full_mesh.local_shapes import largest_shard
from ..graph.problem import Problem
from .candidates import Candidates
from .program import Program, Ref

__all__ = ["Wishes", "build", "input_wish", "is_about_parameters"]

Ids = NDArray[np.int32]
Placements = Sequence[Placement]

# Tensors whose redistributions cost the same: their shape and dtype.
_Alike = tuple[tuple[int, ...], torch.dtype]

_MEMORY = "memory of the parameters"
_PARAMETER = "wish for parameter "


def input_wish(name: str) -> str:
    """The name of what is wished for an input or output."""
    return f"wish for {name}"


def is_about_parameters(constraint: str) -> bool:
    """Is it the name of a wish for parameters?"""
    return constraint == _MEMORY or constraint.startswith(_PARAMETER)


class Wishes:
    """What the caller has decided beforehand.

    Args:
        inputs: Per tensor among the inputs its placements, or None for any.
        outputs: Per tensor among the outputs, likewise; its gradient is placed like it.
        parameters: Placements by name or pattern (``layers.*.weight``); the first that fits counts.
        parameter_memory: Bytes of parameters that a rank may hold; None for any.
    """

    def __init__(
        self,
        inputs: Sequence[Placements | None] | None = None,
        outputs: Sequence[Placements | None] | None = None,
        parameters: Mapping[str, Placements] | None = None,
        parameter_memory: float | None = None,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.parameters = dict(parameters or {})
        self.parameter_memory = parameter_memory


def build(
    program: Program,
    candidates: Sequence[Candidates],
    layouts: LayoutTable,
    mesh: DeviceMesh,
    planner: ExactPlanner,
    wishes: Wishes,
) -> Problem:
    """The problem whose optimum is the plan.

    Raises:
        ShardpropError: a wish that fits no tensor, or that no tensor can be given.
    """
    problem = Problem()
    for node, candidate in zip(program.nodes, candidates, strict=True):
        problem.add_node(node.name, candidate.compute_us)
    _Edges(program, candidates, layouts, mesh, planner).add_to(problem)
    for name, gradient in program.gradients.items():
        problem.equal([program.parameters[name], gradient], name=f"gradient of {name} lies like it")
    for output, tangent in program.tangents:
        name = program.nodes[output].name
        problem.equal([output, tangent], name=f"gradient of {name} lies like it")
    _Wished(program, candidates, layouts, mesh).add_to(problem, wishes)
    return problem


class _Edges:
    """Prices between producers and consumers; alike tables are made once."""

    def __init__(
        self,
        program: Program,
        candidates: Sequence[Candidates],
        layouts: LayoutTable,
        mesh: DeviceMesh,
        planner: ExactPlanner,
    ) -> None:
        self._program = program
        self._candidates = candidates
        self._layouts = layouts
        self._mesh = mesh
        self._planner = planner
        self._prices: dict[_Alike, tuple[Ids, Ids, NDArray[np.float64]]] = {}
        self._tables: dict[Any, NDArray[np.float64]] = {}
        self._classes: dict[Any, tuple[Ids, Ids]] = {}

    def add_to(self, problem: Problem) -> None:
        self._price_all()
        for node in self._program.nodes:
            for position, ref in enumerate(node.operands):
                wanted, of_consumer = self._distinct(node.index, "operands", position)
                offered, of_producer = self._distinct(ref.node, "outputs", ref.output)
                problem.add_edge(
                    node.index,
                    ref.node,
                    self._table(ref, offered, wanted),
                    u_classes=of_consumer,
                    v_classes=of_producer,
                    name=f"operand {position} of {node.name}",
                )

    def _price_all(self) -> None:
        """Between all layouts of alike tensors at once: one search from a layout finds the prices
        to all others."""
        ends: dict[_Alike, tuple[set[int], set[int]]] = {}
        for node in self._program.nodes:
            for position, ref in enumerate(node.operands):
                sources, targets = ends.setdefault(self._alike(ref), (set(), set()))
                sources.update(self._distinct(ref.node, "outputs", ref.output)[0].tolist())
                targets.update(self._distinct(node.index, "operands", position)[0].tolist())
        for (shape, dtype), (sources, targets) in ends.items():
            meta = TensorMeta(torch.Size(shape), _contiguous(shape), dtype)
            offered, wanted = np.array(sorted(sources)), np.array(sorted(targets))
            prices = self._planner.prices(
                meta,
                self._mesh,
                [self._layouts[i] for i in offered.tolist()],
                [self._layouts[i] for i in wanted.tolist()],
            )
            self._prices[shape, dtype] = (wanted, offered, prices)

    def _alike(self, ref: Ref) -> _Alike:
        meta = self._program.meta(ref)
        return tuple(meta.shape), meta.dtype

    def _distinct(self, node: int, side: str, position: int) -> tuple[Ids, Ids]:
        """The distinct layouts at one place of a node's labels, and which each label has."""
        candidate = self._candidates[node]
        key = (id(candidate), side, position)
        if key not in self._classes:
            column = getattr(candidate, side)[:, position]
            ids, classes = np.unique(column, return_inverse=True)
            self._classes[key] = (ids, classes.astype(np.int32))
        return self._classes[key]

    def _table(self, ref: Ref, offered: Ids, wanted: Ids) -> NDArray[np.float64]:
        """[wanted, offered]; the same array for the same layouts of alike tensors."""
        alike = self._alike(ref)
        key = (alike, offered.tobytes(), wanted.tobytes())
        if key not in self._tables:
            targets, sources, prices = self._prices[alike]
            places = np.searchsorted(targets, wanted), np.searchsorted(sources, offered)
            self._tables[key] = prices[np.ix_(*places)]
        return self._tables[key]


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides; prices do not depend on them."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides[: len(shape)]))


class _Wished:
    def __init__(
        self,
        program: Program,
        candidates: Sequence[Candidates],
        layouts: LayoutTable,
        mesh: DeviceMesh,
    ) -> None:
        self._program = program
        self._candidates = candidates
        self._layouts = layouts
        self._mesh = mesh

    def add_to(self, problem: Problem, wishes: Wishes) -> None:
        program = self._program
        for kind, nodes, wanted in (
            ("input", program.inputs, wishes.inputs),
            ("output", program.outputs, wishes.outputs),
        ):
            if wanted is None:
                continue
            if not isinstance(wanted, (list, tuple)) or len(wanted) != len(nodes):
                raise ShardpropError(
                    f"{kind}s: Expected placements or None for each of {len(nodes)} tensors, got "
                    f"{wanted!r}."
                )
            for node, placements in zip(nodes, wanted, strict=True):
                if placements is not None:
                    self._allow(problem, node, placements, input_wish(program.nodes[node].name))
        for pattern in wishes.parameters:
            if not fnmatch.filter(program.parameters, pattern):
                raise ShardpropError(
                    "parameters: Expected names of parameters or patterns of such, got "
                    f"{pattern!r}, which fits none. A parameter with several names has the first."
                )
        for name, node in program.parameters.items():
            fitting = [p for p in wishes.parameters if fnmatch.fnmatchcase(name, p)]
            if fitting:
                self._allow(problem, node, wishes.parameters[fitting[0]], f"{_PARAMETER}{name}")
        if wishes.parameter_memory is not None:
            terms = [term for node in program.parameters.values() for term in self._bytes(node)]
            limit = float(wishes.parameter_memory)
            problem.add_row(terms, hi=limit, name=_MEMORY)

    def _allow(self, problem: Problem, node: int, placements: Placements, name: str) -> None:
        column = self._candidates[node].outputs[:, 0]
        meta = self._program.nodes[node].outputs[0]
        shape = () if meta is None else tuple(meta.shape)
        wanted = _counted_from_the_front(name, placements, len(shape))
        labels = [i for i, layout in enumerate(column) if self._layouts[layout] == wanted]
        if not labels:
            offered = sorted(str(self._layouts[layout]) for layout in column)
            raise ShardpropError(
                f"{name}: Expected placements that a tensor of shape {shape} can have on a mesh of "
                f"shape {tuple(self._mesh.shape)}, one of {', '.join(offered[:6])}"
                f"{', ...' if len(offered) > 6 else ''}; got {(*placements,)}."
            )
        problem.allow(node, labels, name=name)

    def _bytes(self, node: int) -> list[tuple[int, int, float]]:
        (meta,) = self._program.nodes[node].outputs
        if meta is None:
            return []
        column = self._candidates[node].outputs[:, 0]
        shards = [largest_shard(meta.shape, self._mesh.shape, self._layouts[i]) for i in column]
        width = meta.dtype.itemsize
        return [(node, label, math.prod(shape) * width) for label, shape in enumerate(shards)]


def _counted_from_the_front(name: str, placements: object, dims: int) -> tuple[Placement, ...]:
    """Placements with no negative tensor dims.

    Raises:
        ShardpropError: they are no placements.
    """
    if not isinstance(placements, (list, tuple)) or not all(
        isinstance(placement, Placement) for placement in placements
    ):
        raise ShardpropError(
            f"{name}: Expected a placement for each mesh dim, such as [Shard(0), Replicate()], got "
            f"{placements!r}."
        )
    return tuple(
        Shard(p.dim + dims) if isinstance(p, Shard) and p.dim < 0 else p for p in placements
    )
