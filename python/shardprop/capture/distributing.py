"""A model whose parameters, inputs and outputs lie where a plan wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import distribute_tensor

from .. import _torch
from .._torch import DeviceMesh, DTensor, Placement, Replicate
from ..errors import ShardpropError
from .moves import Mover
from .program import Program, Ref
from .running import Chosen, PlannedOps, stands_for

__all__ = ["distribute"]

Placements = tuple[Placement, ...]


def distribute(
    model: nn.Module,
    program: Program,
    chosen: Chosen,
    mesh: DeviceMesh,
    mover: Mover,
    ops: PlannedOps,
) -> None:
    """Make DTensors of the parameters and buffers, and hook on to the model's inputs, outputs and
    gradients.

    Raises:
        ShardpropError: the model has other parameters or buffers than the one that was captured.
    """
    _check(model, program)
    whole: dict[int, Any] = {}
    for name, parameter in list(model.named_parameters(remove_duplicate=False)):
        if id(parameter) not in whole:
            node = program.parameters[name]
            whole[id(parameter)] = (parameter, _parameter(parameter, node, chosen, mesh, mover))
        _set(model, name, whole[id(parameter)][1])
    for name, buffer in list(model.named_buffers()):
        node = program.buffers[name]
        placed = _placed(buffer, mesh, _only(chosen, node))
        stands_for(placed, Ref(node))
        _set(model, name, placed)
    boundary = _Boundaries(program, chosen, mesh, mover, ops)
    model.register_forward_pre_hook(boundary.enter, with_kwargs=True, prepend=True)
    model.register_forward_hook(boundary.leave)


def _check(model: nn.Module, program: Program) -> None:
    for kind, has, wanted in (
        ("parameters", dict(model.named_parameters()), program.parameters),
        ("buffers", dict(model.named_buffers()), program.buffers),
    ):
        if has.keys() != wanted.keys():
            other = sorted(has.keys() ^ wanted.keys())
            raise ShardpropError(
                f"Expected a model with the {kind} of the captured one, got one that differs in "
                f"{', '.join(other[:5])}."
            )
        for name, tensor in has.items():
            meta = program.nodes[wanted[name]].outputs[0]
            if meta is not None and tensor.shape != meta.shape:
                raise ShardpropError(
                    f"{kind}: Expected {name} of shape {tuple(meta.shape)}, got "
                    f"{tuple(tensor.shape)}."
                )


def _set(model: nn.Module, name: str, tensor: torch.Tensor) -> None:
    path, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(path), attribute, tensor)


def _only(chosen: Chosen, node: int) -> Placements:
    (placements,) = chosen.given(node)
    assert placements is not None
    return placements


def _placed(tensor: torch.Tensor, mesh: DeviceMesh, placements: Placements) -> DTensor:
    if isinstance(tensor, DTensor):
        return tensor.redistribute(mesh, placements)
    return distribute_tensor(tensor, mesh, placements)


def _parameter(
    parameter: nn.Parameter, node: int, chosen: Chosen, mesh: DeviceMesh, mover: Mover
) -> nn.Parameter:
    placements = _only(chosen, node)
    placed = _placed(parameter.detach(), mesh, placements)
    made = nn.Parameter(placed, requires_grad=parameter.requires_grad)
    stands_for(made, Ref(node))
    if made.requires_grad:
        # A gradient lies like its parameter: what the plan ends the backward pass with.
        made.register_hook(lambda grad: mover.moved(grad, placements))  # type: ignore[no-untyped-call]
    return made


class _Boundaries:
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

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        self._ops.restart()
        inputs = iter(self._program.inputs)
        args, kwargs = _mapped(
            (list(args), dict(kwargs)), lambda tensor: self._entering(tensor, next(inputs, None))
        )
        return tuple(args), kwargs

    def leave(self, module: nn.Module, args: Any, output: Any) -> Any:
        outputs = iter(self._program.outputs)
        return _mapped(output, lambda tensor: self._leaving(tensor, next(outputs, None)))

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
        placements = _only(self._chosen, node)
        if isinstance(tensor, DTensor):
            placed = tensor.redistribute(self._mesh, placements)
        else:
            # The same on every rank, so that each takes its own part without communication.
            whole = (Replicate(),) * self._mesh.ndim
            placed = DTensor.from_local(tensor, self._mesh, whole, run_check=False)
            placed = placed.redistribute(self._mesh, placements)
        stands_for(placed, Ref(node))
        return placed

    def _leaving(self, tensor: torch.Tensor, node: int | None) -> torch.Tensor:
        if node is None or not isinstance(tensor, DTensor):
            return tensor
        return _Leaving.apply(tensor, self, node, self._tangents.get(node))  # type: ignore[no-any-return, no-untyped-call]

    def placed(self, tensor: DTensor, node: int) -> DTensor:
        """An output, or the gradient of one, as the plan wants it."""
        placements = _only(self._chosen, node)
        moved = self._mover.moved(tensor, placements)
        if moved is tensor:
            moved = _torch.dtensor_of(tensor.to_local(), tensor._spec)
        stands_for(moved, Ref(node))
        return moved


class _Leaving(torch.autograd.Function):
    """Brings an output where the plan wants it. Its gradient lies like it: how that comes back to
    the op that made the output is part of the program, too."""

    @staticmethod
    def forward(
        ctx: Any, tensor: DTensor, boundaries: _Boundaries, output: int, tangent: int | None
    ) -> DTensor:
        ctx.boundaries, ctx.tangent = boundaries, tangent
        return boundaries.placed(tensor, output)

    @staticmethod
    def backward(ctx: Any, gradient: DTensor) -> tuple[Any, ...]:
        if ctx.tangent is not None and isinstance(gradient, DTensor):
            gradient = ctx.boundaries.placed(gradient, ctx.tangent)
        return gradient, None, None, None


def _mapped(item: Any, of: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    leaves, structure = _torch.tree_flatten(item)
    mapped = [of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    return _torch.tree_unflatten(mapped, structure)
