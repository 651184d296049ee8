"""The process group, and the meshes on it: what could be one collective and is several?"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist

from ... import _torch
from ..._torch import DeviceMesh, Partial, Replicate, TensorMeta, make_spec
from ...errors import ShardpropError
from ...propagation.optimal_policy import OptimalPolicy
from ...propagation.propagator import current_policy
from ...propagation.query import plan
from .finding import Finding, note, ok, problem

__all__ = ["flattened", "living_meshes", "process_group"]

# What a group is tried on: 64 MiB.
_TRIED = TensorMeta(torch.Size((4096, 4096)), (4096, 1), torch.float32)

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def process_group() -> Iterator[Finding]:
    """Is there one, and is it the one that torchrun means?"""
    given = {name: os.environ[name] for name in _TORCHRUN if name in os.environ}
    if not dist.is_initialized():
        if given.keys() == {*_TORCHRUN}:
            yield note(
                "process group",
                f"none, and torchrun started this as rank {given['RANK']} of {given['WORLD_SIZE']}",
                "init_device_mesh or torch.distributed.init_process_group makes it",
            )
        elif "RANK" in given or "WORLD_SIZE" in given:
            missing = ", ".join(name for name in _TORCHRUN if name not in given)
            yield problem(
                "process group",
                f"none, and of torchrun's variables {missing} are not set",
                "start the program with torchrun, or unset the others",
            )
        else:
            yield ok("process group", "none yet")
        return
    backend, ranks = dist.get_backend(), dist.get_world_size()
    text = f"{backend}, rank {dist.get_rank()} of {ranks}"
    if backend == "fake":
        yield note("process group", f"{text}: collectives send nothing")
    elif given.get("WORLD_SIZE", str(ranks)) != str(ranks):
        yield problem(
            "process group",
            f"{text}, and WORLD_SIZE is {given['WORLD_SIZE']}",
            "initialise it from torchrun's variables (init_method='env://')",
        )
    else:
        yield ok("process group", text)


def living_meshes() -> list[DeviceMesh]:
    """The root meshes of this process."""
    found = (each for each in gc.get_objects() if issubclass(type(each), DeviceMesh))
    return [mesh for mesh in found if _torch.root_mesh(mesh) is mesh]


def flattened(meshes: Sequence[DeviceMesh]) -> Iterator[Finding]:
    """Which sets of mesh dims can be one collective?"""
    several = [mesh for mesh in meshes if sum(size > 1 for size in mesh.shape) > 1]
    if not several:
        yield ok("flattened meshes", "no mesh with two dims of size 2 and more")
    for mesh in several:
        yield _flattened(mesh)


def _flattened(mesh: DeviceMesh) -> Finding:
    shape = "x".join(map(str, mesh.shape))
    check = f"mesh {shape}"
    if mesh.mesh_dim_names is None:
        return note(
            check,
            "its dims have no names, without which torch flattens none: a redistribution over "
            "two dims is two collectives",
            "give mesh_dim_names to init_device_mesh",
        )
    missing = _torch.groups_to_flatten(mesh)
    if not missing:
        return ok(check, f"all {len(_torch.flattened_groups(mesh))} groups of dims are flattened")
    names = [_names(mesh, dims) for dims in missing]
    dims = max(map(len, missing))
    calls = "; ".join(f"mesh[{', '.join(map(repr, name))}]._flatten()" for name in names[:3])
    others = f" and {len(names) - 3} more like these" if len(names) > 3 else ""
    return note(
        check,
        f"not flattened: {', '.join('(' + ', '.join(name) + ')' for name in names)}. To gather or "
        f"reduce over such a group takes up to {dims} collectives, each with its launch, "
        f"instead of 1{_saving(mesh)}",
        f"{calls}{others} on all ranks, or enable(policy='optimal', create_groups=True)",
    )


def _saving(mesh: DeviceMesh) -> str:
    """What all groups would save, in words, where the policy that is enabled has prices."""
    policy = current_policy()
    if not isinstance(policy, OptimalPolicy):
        return ""
    pending, reduced = ((kind,) * mesh.ndim for kind in (Partial(), Replicate()))
    ends = (make_spec(mesh, placements, _TRIED) for placements in (pending, reduced))
    # By a planner of its own: that of the policy may open groups, which is collective.
    try:
        made = plan(*ends, topology=policy.planner.topology)
    except ShardpropError:  # this rank is not in the mesh, or it is not one of the topology
        return ""
    if made.hint is None:
        return ""
    return f". 64 MiB are reduced in {made.cost_us:.1f} us, {made.hint.text(mesh)}"


def _names(mesh: DeviceMesh, dims: Sequence[int]) -> tuple[str, ...]:
    assert mesh.mesh_dim_names is not None
    return tuple(mesh.mesh_dim_names[dim] for dim in dims)
