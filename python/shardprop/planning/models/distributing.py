"""A model whose parameters and buffers are where a plan wants them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import nn
from torch.distributed.tensor import distribute_tensor

from ... import _torch
from ..._torch import DeviceMesh, DTensor, DTensorSpec, Partial, make_spec
from ...erasure import LocalGraphs
from ...errors import ShardpropError
from .chosen import Chosen, only
from .lowering import part_of
from .moves import in_memory_like
from .program import Program, Ref

__all__ = [
    "check_is_of",
    "check_is_same_everywhere",
    "check_meet_everywhere",
    "distribute",
    "meet_everywhere",
]


def distribute(model: nn.Module, program: Program, chosen: Chosen, mesh: DeviceMesh) -> None:
    """Make DTensors of the parameters and buffers of a model that is the program's, where the plan
    has them.

    Raises:
        Exception: what torch raises while a tensor is distributed; the model is as it was.
    """
    nodes = {**program.parameters, **program.buffers}
    given = [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]
    made: dict[int, torch.Tensor] = {}
    for name, tensor in given:
        if id(tensor) not in made:
            meta = program.meta(Ref(nodes[name]))
            placed = _placed(tensor.detach(), make_spec(mesh, only(chosen, nodes[name]), meta))
            is_parameter = isinstance(tensor, nn.Parameter)
            made[id(tensor)] = (
                nn.Parameter(placed, tensor.requires_grad) if is_parameter else placed
            )
    for name, tensor in given:
        path, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(path), attribute, made[id(tensor)])


def check_is_of(model: nn.Module, program: Program, mesh: DeviceMesh) -> None:
    """Is it the model that was captured, or one like it, with what it has on this mesh?

    Raises:
        ShardpropError: it is not.
    """
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
            meta = program.meta(Ref(wanted[name]))
            if tensor.shape != meta.shape or tensor.dtype != meta.dtype:
                raise ShardpropError(
                    f"{kind}: Expected {name} of shape {tuple(meta.shape)} and {meta.dtype}, got "
                    f"{tuple(tensor.shape)} and {tensor.dtype}."
                )
            if isinstance(tensor, DTensor) and tensor.device_mesh != mesh:
                raise ShardpropError(
                    f"{kind}: Expected {name} on the mesh of the plan, got it on "
                    f"{tensor.device_mesh}."
                )
    _check_modules(model, program)


def check_is_same_everywhere(program: Program, chosen: Chosen, mesh: DeviceMesh) -> None:
    """Have all ranks of the mesh the same plan? They all have to ask. On a mesh without process
    groups nobody can be asked.

    Raises:
        ShardpropError: they have not, on every rank; or this one is not of the mesh.
    """
    if mesh.get_coordinate() is None:
        raise ShardpropError(f"Expected a rank of the mesh of the plan, {mesh}, got another one.")
    layouts = (
        f"{node.name} {(*chosen.given(node.index), *chosen.wanted(node.index))}"
        for node in program.nodes
    )
    if not _is_same_everywhere(layouts, mesh):
        raise ShardpropError(
            "Expected the same plan on every rank, got different ones: solves that are ended by "
            "their time limit may end otherwise on each rank. Save the plan of one, and load it on "
            "the others."
        )


def meet_everywhere(graphs: LocalGraphs, mesh: DeviceMesh) -> bool:
    """Do all ranks of the mesh begin the same collectives in the same order? They all have to ask;
    without process groups it is taken to be so."""
    begun = (
        f"{call.target} {part_of(call)}"
        for each in (graphs.forward, graphs.backward)
        for call in ([] if each is None else each.nodes)
        if _torch.begins_collective(call.target)
    )
    return _is_same_everywhere(begun, mesh)


def check_meet_everywhere(graphs: LocalGraphs, mesh: DeviceMesh) -> None:
    """See `meet_everywhere`.

    Raises:
        ShardpropError: they do not, on every rank.
    """
    if not meet_everywhere(graphs, mesh):
        raise ShardpropError(
            "Expected the same collectives in the same order on every rank, got other ones: were "
            "these the same passes, and the same versions of torch and shardprop?"
        )


def _is_same_everywhere(lines: Iterable[str], mesh: DeviceMesh) -> bool:
    """Are these the same on all ranks? Without process groups: yes."""
    if not _torch.has_groups(mesh):
        return True
    digest = hashlib.sha256()
    for line in lines:
        digest.update(f"{line}\n".encode())
    number = int.from_bytes(digest.digest()[:7], "big")
    with _torch.no_modes():
        both = torch.tensor([number, -number], device="cpu")
        largest = DTensor.from_local(both, mesh, [Partial("max")] * mesh.ndim, run_check=False)
        most, least = largest.full_tensor().tolist()
    return bool(most == -least)


def _check_modules(model: nn.Module, program: Program) -> None:
    kinds = [kind for kind, _ in program.call.modules]
    for (name, module), kind in zip(model.named_modules(), kinds, strict=False):
        if type(module) is not kind:
            raise ShardpropError(
                f"{name or 'the model'}: Expected a {kind.__name__}, as captured, got a "
                f"{type(module).__name__}."
            )
    count = len([*model.modules()])
    if count != len(kinds):
        raise ShardpropError(f"Expected a model of {len(kinds)} modules, as captured, got {count}.")


def _placed(tensor: torch.Tensor, spec: DTensorSpec) -> DTensor:
    """What a rank holds lies in memory as the whole one that was captured does."""
    if isinstance(tensor, DTensor):
        placed = tensor.redistribute(spec.mesh, spec.placements)
    else:
        placed = distribute_tensor(tensor, spec.mesh, spec.placements)
    return _torch.wrapped(in_memory_like(spec.stride, _torch.local_of(placed)), spec)
