"""What a plan file holds, as pydantic checks it."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from ...support.console import counted
from ...support.json_document import Count, Finite, Flag, NotNegative, Part, Text, fault
from ..graph.solution import PROVED

__all__ = ["NodePart", "PlanPart"]


class NodePart(Part):
    """A node of the program; see `PlannedNode`."""

    name: Text
    kind: Text
    op: str
    module: str
    arguments: str
    tensors: tuple[str | None, ...]
    outputs: tuple[str | None, ...]
    operands: tuple[str, ...]
    compute_us: NotNegative

    @model_validator(mode="after")
    def _has_placements_of_each_tensor(self) -> NodePart:
        if len(self.outputs) != len(self.tensors):
            expected = f"placements of {counted(len(self.tensors), 'output')}"
            raise fault(expected, f"{len(self.outputs):,}")
        return self


class PlanPart(Part):
    """The document; see `PlanFile`."""

    format: Literal["shardprop plan"]
    version: Literal[1]
    torch: Text
    device: Text
    mesh_shape: tuple[Count, ...]
    mesh_dim_names: tuple[str, ...]
    cost_us: NotNegative
    lower_bound_us: Finite | None
    proved: Flag
    problem: Text
    nodes: tuple[NodePart, ...]

    @model_validator(mode="after")
    def _has_a_bound_below_its_cost(self) -> PlanPart:
        if self.lower_bound_us is None:
            if self.proved:
                raise fault("a lower bound of a plan that is proved", "null")
        elif self.lower_bound_us > self.cost_us * (1 + PROVED):
            expected = f"a lower bound of at most the cost, {self.cost_us}"
            raise fault(expected, str(self.lower_bound_us))
        return self
