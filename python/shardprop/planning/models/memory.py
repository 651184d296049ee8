"""What a rank holds while a planned model is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..._torch import tree_leaves
from ..._torch.joint_graphs import JointGraph
from ...erasure import LocalGraphs, footprint_of
from ...errors import ShardpropError
from .lowering import node_of
from .program import Program

__all__ = ["Optimizer", "PlanMemory", "plan_memory", "state_bytes"]

# An optimizer's class, or a function, that takes parameters.
Optimizer = Callable[[Iterable[Any]], torch.optim.Optimizer]


@dataclass(frozen=True)
class PlanMemory:
    """Bytes of tensors on the rank that holds most, the first of the mesh: without what ops
    allocate inside, what an allocator rounds up, and plain tensors that are attributes of a model.

    Attributes:
        parameters: Its shards of the parameters.
        buffers: Of the buffers.
        inputs: Of the inputs, as the plan has them.
        optimizer: What an optimizer keeps for the parameters that get a gradient.
        gradients: Of the gradients of parameters, which are there from the backward to the
            optimizer's step.
        kept: What the forward leaves for the backward.
        forward: The most that the forward makes and holds at once.
        backward: The most that is held in the backward, beside parameters, buffers, inputs and
            what the optimizer keeps. It begins from the outputs that are a single number, the loss;
            where none is, from all.
        fullest: The index of the node of the program at which most is held; None where nothing
            runs.
    """

    parameters: int
    buffers: int
    inputs: int
    optimizer: int
    gradients: int
    kept: int
    forward: int
    backward: int
    fullest: int | None

    @property
    def held(self) -> int:
        """What is there all the time."""
        return self.parameters + self.buffers + self.inputs + self.optimizer

    @property
    def peak(self) -> int:
        """The most at once in a step, forward and backward."""
        return self.held + max(self.forward, self.backward)


def plan_memory(
    program: Program, joint: JointGraph, graphs: LocalGraphs, optimizer: Optimizer | None
) -> PlanMemory:
    """That of a plan.

    Args:
        program: What was planned.
        joint: What it was lowered to.
        graphs: What runs.
        optimizer: Of the parameters that require a gradient; None: there is none.

    Raises:
        ShardpropError: the optimizer does not take a step on tensors without data.
    """
    footprint = footprint_of(graphs)
    counts = len(program.parameters), len(program.buffers)
    sizes = [_bytes(border) for border in joint.operands]
    trained = [
        (border.shape, border.dtype)
        for border, gradient in zip(joint.operands, joint.gradients[: counts[0]], strict=False)
        if border is not None and gradient is not None
    ]
    return PlanMemory(
        parameters=sum(sizes[: counts[0]]),
        buffers=sum(sizes[counts[0] : sum(counts)]),
        inputs=sum(sizes[sum(counts) :]),
        optimizer=0 if optimizer is None else sum(state_bytes(optimizer, trained)),
        gradients=sum(map(_bytes, joint.gradients[: counts[0]])),
        kept=footprint.kept,
        forward=footprint.forward,
        backward=footprint.backward,
        fullest=None if footprint.fullest is None else node_of(footprint.fullest),
    )


def _bytes(border: Any) -> int:
    return 0 if border is None else int(border.shape.numel()) * int(border.dtype.itemsize)


def state_bytes(
    optimizer: Optimizer, parameters: Sequence[tuple[Sequence[int], torch.dtype]]
) -> list[int]:
    """What an optimizer keeps for each parameter after a step.

    Raises:
        ShardpropError: it does not take a step on tensors without data.
    """
    if not parameters:
        return []
    tensors = [
        torch.nn.Parameter(torch.empty(shape, dtype=dtype, device="meta"))
        for shape, dtype in parameters
    ]
    for tensor in tensors:
        tensor.grad = torch.empty_like(tensor)
    try:
        made = optimizer(tensors)
        made.step()
        return [sum(map(_held_by, tree_leaves(made.state[tensor]))) for tensor in tensors]
    except Exception as error:  # whatever it raises of itself
        raise ShardpropError(
            "optimizer: Expected one that takes a step on tensors without data, such as "
            f"torch.optim.AdamW, got {type(error).__name__}: {error}"
        ) from error


def _held_by(item: object) -> int:
    return item.numel() * item.itemsize if isinstance(item, torch.Tensor) else 0
