"""A plan as a file: what was chosen for each node, to be read, compared and applied again."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ..._torch import Placement, TensorMeta, are_plain, is_strided
from ...errors import ShardpropError
from ...model.placements import Placements
from ...support.console import COLUMNS, counted, table, table_lines
from ...support.files import write_text
from ..graph.problem import Problem
from .program import Node, Program, Ref, fill

if TYPE_CHECKING:
    from .model_plan import ModelPlan

__all__ = [
    "Change",
    "NodeFacts",
    "PlanDiff",
    "PlanFile",
    "PlannedNode",
    "check_mesh",
    "check_nodes",
    "digest_of",
    "facts_of",
    "layout_text",
]


@dataclass(frozen=True)
class NodeFacts:
    """What a node of a program is, whatever the plan.

    Attributes:
        name: Unique in the program.
        kind: As `Node.kind`.
        op: The overload; empty where it is none.
        module: The path of its module.
        arguments: Of the op: tensors by the name of the node, with the output behind a dot if it is
            not the first.
        tensors: Shape and dtype of each output; None for one that is absent.
    """

    name: str
    kind: str
    op: str
    module: str
    arguments: str
    tensors: tuple[str | None, ...]

    def __str__(self) -> str:
        what = f"{self.op}({self.arguments})" if self.op else self.kind
        where = f" in {self.module!r}" if self.module else ""
        return f"{what} {self.name} of {', '.join(map(str, self.tensors))}{where}"


@dataclass(frozen=True)
class PlannedNode(NodeFacts):
    """A node of the program, and what was chosen for it.

    Attributes:
        outputs: Placements of each output over the mesh, as torch writes them; None for one that is
            absent.
        operands: Placements that each operand is brought to.
        compute_us: Microseconds of the op on one rank.
    """

    outputs: tuple[str | None, ...]
    operands: tuple[str, ...]
    compute_us: float

    @property
    def facts(self) -> NodeFacts:
        """What a node of a program for the same plan has to be."""
        return NodeFacts(*(getattr(self, each.name) for each in fields(NodeFacts)))

    @property
    def chosen(self) -> tuple[object, ...]:
        """What a plan says of it."""
        return self.outputs, self.operands


@dataclass(frozen=True)
class PlanFile:
    """A plan without the model.

    Attributes:
        torch: The version of torch that traced the model; for the reader.
        device: The type of device that it was traced for; likewise.
        mesh_shape: Ranks per mesh dim.
        mesh_dim_names: Their names, if they have any.
        cost_us: Microseconds of the whole program on one rank.
        lower_bound_us: No plan costs less; None where nothing is known: of a plan that was sought
            among those by which a rank holds no more than it may, too.
        proved: Is the plan proved to be the cheapest?
        problem: A digest of the problem that was solved; what was proved holds for it alone.
        nodes: In the order of the program.
    """

    torch: str
    device: str
    mesh_shape: tuple[int, ...]
    mesh_dim_names: tuple[str, ...]
    cost_us: float
    lower_bound_us: float | None
    proved: bool
    problem: str
    nodes: tuple[PlannedNode, ...]

    @staticmethod
    def of(plan: ModelPlan) -> PlanFile:
        """What a plan says."""
        solution = plan.solution
        nodes = zip(plan.program.nodes, plan.compute_us.tolist(), strict=True)
        bound = solution.lower_bound if plan.memory_limit is None else -math.inf
        return PlanFile(
            torch=torch.__version__,
            device=plan.device,
            mesh_shape=tuple(plan.mesh.shape),
            mesh_dim_names=tuple(plan.mesh.mesh_dim_names or ()),
            cost_us=plan.cost_us,
            lower_bound_us=None if math.isinf(bound) else bound,
            proved=solution.proved and plan.memory_limit is None,
            problem=digest_of(plan.problem),
            nodes=tuple(
                PlannedNode(
                    **vars(facts_of(plan.program, node)),
                    outputs=tuple(map(_text, plan.given(node.index))),
                    operands=tuple(map(layout_text, plan.wanted(node.index))),
                    compute_us=us,
                )
                for node, us in nodes
            ),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON.

        Raises:
            ShardpropError: it cannot be written.
        """
        values = {"format": "shardprop plan", "version": 1, **asdict(self)}
        write_text(path, json.dumps(values, allow_nan=False) + "\n")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> PlanFile:
        """What `save` wrote.

        Raises:
            ShardpropError: it cannot be read, or has a fault, which is named with its place.
        """
        from ...support.json_document import checked, read_json
        from .plan_schema import PlanPart

        part = checked(PlanPart, read_json(Path(path)), str(path))
        values = part.model_dump(exclude={"format", "version", "nodes"})
        return PlanFile(
            **values, nodes=tuple(PlannedNode(**node.model_dump()) for node in part.nodes)
        )

    def diff(self, other: PlanFile) -> PlanDiff:
        """In what another plan of the same program differs from this one.

        Raises:
            ShardpropError: it is a plan of another program, or on another mesh; the first node in
                which the programs differ is named.
        """
        check_mesh("other", other, self.mesh_shape, self.mesh_dim_names)
        check_nodes("other", other.nodes, [node.facts for node in self.nodes])
        pairs = zip(self.nodes, other.nodes, strict=True)
        changes = [Change(mine, its) for mine, its in pairs if mine.chosen != its.chosen]
        return PlanDiff(self.cost_us, other.cost_us, tuple(changes))


@dataclass(frozen=True)
class Change:
    """A node that two plans have otherwise."""

    before: PlannedNode
    after: PlannedNode


@dataclass(frozen=True)
class PlanDiff:
    """In what a plan differs from another of the same program.

    Attributes:
        before_us: Microseconds of the one.
        after_us: Microseconds of the other.
        changes: The nodes that they have otherwise, in the order of the program.
    """

    before_us: float
    after_us: float
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        shown = table(("node", "tensor", "before", "after"))
        for change in self.changes:
            for row in _rows(change):
                shown.add_row(*row)
        head = f"{self.before_us:.1f} us before, {self.after_us:.1f} us after; "
        head += f"{counted(len(self.changes), 'node')} differ."
        return "\n".join([head, *(table_lines(shown, "", COLUMNS) if self.changes else [])])


def _rows(change: Change) -> Iterator[tuple[str, str, str, str]]:
    before, after = change.before, change.after
    # A file may say of an op that it has other operands.
    outputs = zip_longest(before.outputs, after.outputs)
    operands = zip_longest(before.operands, after.operands)
    for what, pairs in (("output", outputs), ("operand", operands)):
        for at, (old, new) in enumerate(pairs):
            if old != new:
                yield before.name, f"{what} {at}", old or "absent", new or "absent"


def facts_of(program: Program, node: Node) -> NodeFacts:
    """What a file says of a node of a program, whatever the plan."""
    return NodeFacts(
        node.name,
        node.kind,
        "" if node.op is None else str(node.op),
        node.module,
        "" if node.op is None else _arguments(program, node),
        tuple(map(_tensor, node.outputs)),
    )


def _arguments(program: Program, node: Node) -> str:
    def named(ref: Ref) -> _Name:
        name = program.nodes[ref.node].name
        return _Name(name if not ref.output else f"{name}.{ref.output}")

    args, kwargs = (fill(part, named) for part in (node.args, node.kwargs))
    return ", ".join([*map(repr, args), *(f"{name}={item!r}" for name, item in kwargs.items())])


class _Name(str):
    """Written without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _tensor(meta: TensorMeta | None) -> str | None:
    if meta is None:
        return None
    return f"{str(meta.dtype).removeprefix('torch.')}{[*meta.shape]}"


def _text(layout: Placements | None) -> str | None:
    return None if layout is None else layout_text(layout)


def layout_text(layout: Placements) -> str:
    """As torch writes it; what it might write alike is told apart."""
    return "".join(map(_placement, layout))


def _placement(placement: Placement) -> str:
    known = are_plain((placement,)) or is_strided(placement)
    return str(placement) if known else repr(placement)


def digest_of(problem: Problem) -> str:
    """The same for the same nodes, costs, prices and constraints."""
    values, arrays = problem.to_arrays()
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def check_mesh(
    document: str, plan: PlanFile, shape: Sequence[int], names: Sequence[str] | None
) -> None:
    """Is a plan on a mesh like this?

    Raises:
        ShardpropError: it is not.
    """
    if plan.mesh_shape != tuple(shape):
        raise ShardpropError(
            f"{document}: Expected a plan on a mesh of {tuple(shape)}, got one on a mesh of "
            f"{plan.mesh_shape}."
        )
    if names and plan.mesh_dim_names and plan.mesh_dim_names != tuple(names):
        raise ShardpropError(
            f"{document}: Expected a plan on mesh dims {tuple(names)}, got one on "
            f"{plan.mesh_dim_names}."
        )


def check_nodes(document: str, nodes: Sequence[PlannedNode], expected: Sequence[NodeFacts]) -> None:
    """Are they those of the program that is expected?

    Raises:
        ShardpropError: they are not; the first that differs is named.
    """
    other = "it is of another model, or of another call"
    for node, facts in zip(nodes, expected, strict=False):
        if node.facts != facts:
            raise ShardpropError(f"{document}: Expected {facts}, got {node.facts}: {other}.")
    if len(nodes) != len(expected):
        raise ShardpropError(
            f"{document}: Expected a plan of {counted(len(expected), 'node')}, got one of "
            f"{len(nodes):,}: {other}."
        )
