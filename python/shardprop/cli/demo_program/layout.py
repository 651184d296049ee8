"""Where the demo's tensors live on the mesh, said by mesh dim names instead of by position."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor

from .settings import MeshShape


@dataclass(frozen=True)
class Layout:
    """A mesh with named dims; without a mesh (`SINGLE_DEVICE`) everything stays a plain tensor.

    The model calls `constrain` at the few places where a person would ask for a redistribution.
    On a single device it does nothing, so one model text serves both and the two can be compared.
    """

    mesh: DeviceMesh | None

    def placements(self, **tensor_dims: int) -> tuple[Placement, ...]:
        """One placement per mesh dim: `dp=0` shards tensor dim 0 over the mesh dim called dp.

        Names the mesh does not have are ignored; mesh dims that are not named replicate.

        >>> layout.placements(dp=0, sp=1)      # on a mesh with dims (dp, sp, tp)
        (Shard(dim=0), Shard(dim=1), Replicate())
        """
        names = self._mesh().mesh_dim_names
        assert names is not None, "build_layout names every mesh dim"
        return tuple(Shard(tensor_dims[n]) if n in tensor_dims else Replicate() for n in names)

    def distribute(self, tensor: torch.Tensor, **tensor_dims: int) -> torch.Tensor:
        """Turn a full tensor, the same on every rank, into a DTensor; no data is sent."""
        if self.mesh is None:
            return tensor
        return distribute_tensor(
            tensor, self.mesh, self.placements(**tensor_dims), src_data_rank=None
        )

    def constrain(self, tensor: torch.Tensor, **tensor_dims: int) -> torch.Tensor:
        """Redistribute an activation to the placements named by `tensor_dims`."""
        if not isinstance(tensor, DTensor):
            return tensor
        return tensor.redistribute(placements=self.placements(**tensor_dims))

    def hidden_state(self, x: torch.Tensor) -> torch.Tensor:
        """Redistribute [batch, seq, dim] to the layout of the residual stream between the blocks.

        The sequence is sharded over sp, or over tp on a mesh without sp (Megatron's sequence
        parallelism). Not over both: torch 2.13 and 2.15 flatten such a tensor and then fail to
        view it back, since each strided shard claims the sequence dim for itself.
        """
        if self.mesh is None:
            return x
        names = self.mesh.mesh_dim_names or ()
        sequence = "sp" if "sp" in names else "tp"
        return self.constrain(x, **{"dp": 0, "fsdp": 0, sequence: 1})

    def _mesh(self) -> DeviceMesh:
        if self.mesh is None:
            raise RuntimeError("Expected a layout with a mesh, got SINGLE_DEVICE.")
        return self.mesh


SINGLE_DEVICE = Layout(None)
"""The layout of the reference model: plain tensors, no DTensor anywhere."""


def build_layout(shape: MeshShape) -> Layout:
    """A CPU mesh of that shape; torch.distributed must be initialised with as many ranks."""
    return Layout(init_device_mesh("cpu", shape.sizes, mesh_dim_names=shape.names))
