"""What enters a model that runs by a plan, and what leaves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import zeros

from ... import _torch
from ..._torch import DeviceMesh, DTensor, Placement, Replicate, make_spec
from ...errors import ShardpropError
from .moves import Mover, in_memory_like
from .planned_ops import Chosen, PlannedOps, stands_for
from .program import Program, Ref
from .tracing import in_order, is_tracing

__all__ = ["Boundaries", "only"]


def only(chosen: Chosen, node: int) -> tuple[Placement, ...]:
    """The placements of a node with one output."""
    (placements,) = chosen.given(node)
    return placements or ()


class Boundaries:
    """What enters the model, and what leaves it."""

    def __init__(
        self,
        program: Program,
        chosen: Chosen,
        mesh: DeviceMesh,
        mover: Mover,
        ops: PlannedOps,
    ) -> None:
        self._program = program
        self._chosen = chosen
        self._mesh = mesh
        self._mover = mover
        self._ops = ops
        self._tangents = dict(program.tangents)

    def __deepcopy__(self, memo: Any) -> Boundaries:
        return self  # a copy of the model follows the same plan

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        if is_tracing():
            return None
        self._ops.restart()
        inputs = iter(self._program.inputs)
        args, kwargs = _mapped(
            in_order(args, kwargs), lambda tensor: self._entering(tensor, next(inputs, None))
        )
        if next(inputs, None) is not None:
            raise ShardpropError(
                f"Expected the {len(self._program.inputs)} input tensors that were captured, got "
                "fewer."
            )
        return tuple(args), kwargs

    def leave(self, module: nn.Module, args: Any, output: Any) -> Any:
        if is_tracing():
            return None
        leaves, structure = _torch.tree_flatten(output)
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        # Those with gradients leave together: where the program uses some of them only, the
        # gradients of the others are zero, and the backward pass is the one that was captured.
        together = []
        for place, node in zip(places, self._program.outputs, strict=False):
            if not isinstance(leaves[place], DTensor):
                continue
            if node in self._tangents:
                together.append((place, node))
            else:
                leaves[place] = self.placed(leaves[place], node)
        if together:
            nodes = [node for _, node in together]
            left = _Leaving.apply(self, nodes, *(leaves[place] for place, _ in together))  # type: ignore[no-untyped-call]
            for (place, _), tensor in zip(together, left, strict=True):
                leaves[place] = tensor
        return _torch.tree_unflatten(leaves, structure)

    def _entering(self, tensor: torch.Tensor, node: int | None) -> torch.Tensor:
        if node is None:
            raise ShardpropError(
                f"Expected the {len(self._program.inputs)} input tensors that were captured, got "
                "more."
            )
        meta = self._program.nodes[node].outputs[0]
        if meta is not None and tensor.shape != meta.shape:
            raise ShardpropError(
                f"{self._program.nodes[node].name}: Expected the shape that was captured, "
                f"{tuple(meta.shape)}, got {tuple(tensor.shape)}."
            )
        placements = only(self._chosen, node)
        if isinstance(tensor, DTensor):
            placed = tensor.redistribute(self._mesh, placements)
        else:
            # The same on every rank, so that each takes its own part without communication.
            whole = (Replicate(),) * self._mesh.ndim
            placed = DTensor.from_local(tensor, self._mesh, whole, run_check=False)
            placed = placed.redistribute(self._mesh, placements)
        stands_for(placed, Ref(node), self._program)
        return placed

    def entering_gradient(self, gradient: torch.Tensor | None, output: int) -> DTensor:
        """The gradient of an output as the backward pass was captured with."""
        node = self._tangents[output]
        if gradient is None:
            gradient = self._zeros(node)
        elif not isinstance(gradient, DTensor):
            raise ShardpropError(
                f"{self._program.nodes[output].name}: Expected a DTensor as its gradient, got a "
                f"{type(gradient).__name__}."
            )
        return self.placed(self.laid_out(gradient, node), node)

    def _zeros(self, node: int) -> DTensor:
        meta = self._program.nodes[node].outputs[0]
        if meta is None:
            raise LookupError(self._program.nodes[node].name)
        return zeros(
            meta.shape,
            dtype=meta.dtype,
            device_mesh=self._mesh,
            placements=only(self._chosen, node),
        )

    def laid_out(self, gradient: DTensor, node: int) -> DTensor:
        """The gradient of an output with the strides that were traced: they decide which ops the
        backward pass takes (a view, or a copy before it)."""
        meta = self._program.nodes[node].outputs[0]
        if meta is None or gradient.stride() == meta.stride:
            return gradient
        spec = make_spec(gradient.device_mesh, gradient.placements, meta)
        return _torch.dtensor_of(in_memory_like(meta.stride, gradient.to_local()), spec)

    def placed(self, tensor: DTensor, node: int) -> DTensor:
        """An output, or the gradient of one, as the plan wants it."""
        placements = only(self._chosen, node)
        moved = self._mover.moved(tensor, placements)
        if moved is tensor:
            moved = _torch.dtensor_of(tensor.to_local(), _torch.spec_of(tensor))
        stands_for(moved, Ref(node), self._program)
        return moved


class _Leaving(torch.autograd.Function):
    """Brings outputs where the plan wants them. Their gradients are placed like them: how these
    come back to the ops that made the outputs is part of the program, too."""

    @staticmethod
    def forward(
        ctx: Any, boundaries: Boundaries, nodes: list[int], *tensors: DTensor
    ) -> tuple[DTensor, ...]:
        ctx.boundaries, ctx.nodes = boundaries, nodes
        ctx.set_materialize_grads(False)
        return tuple(map(boundaries.placed, tensors, nodes))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[Any, ...]:
        return None, None, *map(ctx.boundaries.entering_gradient, gradients, ctx.nodes)


def _mapped(item: Any, of: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    leaves, structure = _torch.tree_flatten(item)
    mapped = [of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    return _torch.tree_unflatten(mapped, structure)
