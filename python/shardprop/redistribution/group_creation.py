"""Process groups for every set of mesh dims, opened when a mesh is first met."""

from __future__ import annotations

from .. import _torch
from .._torch import DeviceMesh
from ..errors import ShardpropError

__all__ = ["create_groups"]


def create_groups(mesh: DeviceMesh) -> bool:
    """Flatten every set of mesh dims that has no process group yet. Collective: all ranks call it.

    torch flattens no mesh whose dims have no names: such a mesh is left as it is.

    Returns:
        Is there nothing left to do? Not while a program is traced or runs on fake tensors, or one
        process stands for all ranks: what is opened then may not be the real thing.

    Raises:
        ShardpropError: torch could not open one; its error is the cause.
    """
    if mesh.mesh_dim_names is None:
        return True
    if _torch.may_be_symbolic() or _torch.in_local_tensor_mode():
        return False
    for mesh_dims in _torch.groups_to_flatten(mesh):
        try:
            # A mode of the program, such as a counter of ops, is not to see the ranks computed.
            with _torch.no_modes():
                _torch.flatten_dims(mesh, mesh_dims)
        except Exception as error:
            raise ShardpropError(
                f"create_groups: Expected to flatten mesh dims {mesh_dims} of {mesh}, got "
                f"{type(error).__name__}: {error} What follows does without; flatten them in the "
                "program, or leave create_groups out."
            ) from error
    return True
