"""What the caller of `capture` has decided beforehand."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence

from ..._torch import Placement, Shard
from ...errors import ShardpropError
from ..graph.problem import Problem
from .labelled import Labelled
from .program import Ref

__all__ = ["UserConstraints", "input_constraint", "is_about_parameters"]


_MEMORY = "memory of the parameters"
_PARAMETER = "wish for parameter "


def input_constraint(name: str) -> str:
    """The name of what is wished for an input or output."""
    return f"wish for {name}"


def is_about_parameters(constraint: str) -> bool:
    """Is it the name of a wish for parameters?"""
    return constraint == _MEMORY or constraint.startswith(_PARAMETER)


class UserConstraints:
    """What the caller has decided beforehand.

    Args:
        inputs: Per tensor among the inputs its placements, or None for any.
        outputs: Per tensor among the outputs, likewise; its gradient is placed like it.
        parameters: Placements by name or pattern (``layers.*.weight``); the first that fits counts.
        parameter_memory: Bytes of parameters that a rank may hold; None for any.
    """

    def __init__(
        self,
        inputs: Sequence[Sequence[Placement] | None] | None = None,
        outputs: Sequence[Sequence[Placement] | None] | None = None,
        parameters: Mapping[str, Sequence[Placement]] | None = None,
        parameter_memory: float | None = None,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.parameters = dict(parameters or {})
        self.parameter_memory = parameter_memory

    def add_to(self, problem: Problem, labelled: Labelled) -> None:
        """Constrain a problem.

        Raises:
            ShardpropError: a wish that fits no tensor, or that no tensor can be given.
        """
        self._place_ends(problem, labelled)
        self._place_parameters(problem, labelled)
        if self.parameter_memory is not None:
            parameters = labelled.program.parameters.values()
            terms = [
                (node, label, size)
                for node in parameters
                for label, size in enumerate(labelled.bytes_held(Ref(node)).tolist())
            ]
            problem.add_row(terms, hi=float(self.parameter_memory), name=_MEMORY)

    def _place_ends(self, problem: Problem, labelled: Labelled) -> None:
        program = labelled.program
        for kind, nodes, wanted in (
            ("input", program.inputs, self.inputs),
            ("output", program.outputs, self.outputs),
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
                    _allow(
                        problem,
                        labelled,
                        node,
                        placements,
                        input_constraint(program.nodes[node].name),
                    )

    def _place_parameters(self, problem: Problem, labelled: Labelled) -> None:
        program = labelled.program
        for pattern in self.parameters:
            if not fnmatch.filter(program.parameters, pattern):
                raise ShardpropError(
                    "parameters: Expected names of parameters or patterns of such, got "
                    f"{pattern!r}, which fits none. A parameter with several names has the first."
                )
        for name, node in program.parameters.items():
            fitting = [p for p in self.parameters if fnmatch.fnmatchcase(name, p)]
            if fitting:
                _allow(problem, labelled, node, self.parameters[fitting[0]], f"{_PARAMETER}{name}")


def _allow(
    problem: Problem, labelled: Labelled, node: int, placements: Sequence[Placement], name: str
) -> None:
    offered = labelled.offered(node)
    meta = labelled.program.nodes[node].outputs[0]
    shape = () if meta is None else tuple(meta.shape)
    wanted = _counted_from_the_front(name, placements, len(shape))
    labels = [i for i, layout in enumerate(offered) if layout == wanted]
    if not labels:
        texts = sorted(map(str, offered))
        raise ShardpropError(
            f"{name}: Expected placements that a tensor of shape {shape} can have on a mesh of "
            f"shape {tuple(labelled.mesh.shape)}, one of {', '.join(texts[:6])}"
            f"{', ...' if len(texts) > 6 else ''}; got {(*placements,)}."
        )
    problem.allow(node, labels, name=name)


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
