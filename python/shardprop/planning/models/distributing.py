"""A model whose parameters, inputs and outputs lie where a plan wants them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import distribute_tensor

from ..._torch import DeviceMesh, DTensor
from ...errors import ShardpropError
from ...model.placements import Placements
from .boundaries import Boundaries, only
from .moves import Mover
from .planned_ops import Chosen, PlannedOps, stands_for
from .program import Program, Ref

__all__ = ["distribute"]

# Where a model keeps what ties it to its plan.
_HOOKS = "_shardprop_hooks"


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
            made = _parameter(name, parameter, program, chosen, mesh, mover)
            whole[id(parameter)] = (parameter, made)
        _set(model, name, whole[id(parameter)][1])
    for name, buffer in list(model.named_buffers(remove_duplicate=False)):
        if id(buffer) not in whole:
            node = program.buffers[name]
            placed = _placed(buffer, mesh, only(chosen, node))
            stands_for(placed, Ref(node), program)
            whole[id(buffer)] = (buffer, placed)
        _set(model, name, whole[id(buffer)][1])
    boundary = Boundaries(program, chosen, mesh, mover, ops)
    for handle in model.__dict__.pop(_HOOKS, ()):
        handle.remove()
    model.__dict__[_HOOKS] = (
        model.register_forward_pre_hook(boundary.enter, with_kwargs=True, prepend=True),
        model.register_forward_hook(boundary.leave),
    )


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


def _placed(tensor: torch.Tensor, mesh: DeviceMesh, placements: Placements) -> DTensor:
    if isinstance(tensor, DTensor):
        return tensor.redistribute(mesh, placements)
    return distribute_tensor(tensor, mesh, placements)


def _parameter(
    name: str,
    parameter: nn.Parameter,
    program: Program,
    chosen: Chosen,
    mesh: DeviceMesh,
    mover: Mover,
) -> nn.Parameter:
    node = program.parameters[name]
    placements = only(chosen, node)
    placed = _placed(parameter.detach(), mesh, placements)
    made = nn.Parameter(placed, requires_grad=parameter.requires_grad)
    stands_for(made, Ref(node), program)
    if made.requires_grad:
        # A gradient is placed like its parameter: what the plan ends the backward pass with.
        gradient = program.gradients.get(name)

        def placed_like_it(found: DTensor) -> DTensor:
            moved = mover.moved(found, placements)
            if gradient is not None:
                stands_for(moved, Ref(gradient), program)
            return moved

        made.register_hook(placed_like_it)  # type: ignore[no-untyped-call]
    return made
