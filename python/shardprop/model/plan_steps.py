"""A plan: how a tensor goes from one layout to another, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .._torch import Placement
from ..support.drawing import drawer
from ..support.picture import Picture

__all__ = ["Layout", "Step"]


@dataclass(frozen=True)
class Layout:
    """The placements over all mesh dims plus the shard order.

    Attributes:
        placements: One for each mesh dim.
        shard_order: Per tensor dim that is sharded, in ascending order: the tensor dim and the mesh
            dims in the order in which they cut it, the outermost first.
    """

    placements: tuple[Placement, ...]
    shard_order: tuple[tuple[int, tuple[int, ...]], ...]

    def plot(
        self,
        shape: Sequence[int],
        mesh_shape: Sequence[int],
        *,
        mesh_dim_names: Sequence[str] | None = None,
        dims: Sequence[int] | None = None,
    ) -> Picture:
        """Which rank holds which block of a tensor; `plot_layout` says what is drawn.

        Args:
            shape: The shape of the whole tensor.
            mesh_shape: How many ranks there are along each mesh dim.
            mesh_dim_names: One for each mesh dim; None: their numbers.
            dims: The tensor dims to draw, as rows and columns.

        Raises:
            ShardpropError: tensor, mesh and layout do not fit together.
        """
        return drawer().draw_layout(self, shape, mesh_shape, mesh_dim_names, dims)


@dataclass(frozen=True)
class Step:
    """One collective or local step, on one mesh dim or on several flattened into one.

    Attributes:
        kind: ``all_gather``, ``all_reduce``, ``reduce_scatter``, ``all_to_all``, ``permute``, or
            one of the local ``chunk``, ``partition`` and ``zero_fill``.
        mesh_dims: Ascending; several run on the flattened mesh of these dims.
        before: The layout that the step starts from.
        after: The layout that it leaves.
        comm_us: Microseconds of communication under the cost model.
        local_us: Microseconds of local work.
        wire_bytes: Bytes that a rank sends.
        peak_bytes: Bytes that a rank holds at once.
    """

    kind: str
    mesh_dims: tuple[int, ...]
    before: Layout
    after: Layout
    comm_us: float
    local_us: float
    wire_bytes: int
    peak_bytes: int

    @property
    def us(self) -> float:
        """Microseconds in all."""
        return self.comm_us + self.local_us

    def __str__(self) -> str:
        dims = ", ".join(map(str, self.mesh_dims))
        return (
            f"{self.kind} on mesh dim{'s' * (len(self.mesh_dims) > 1)} {dims}: "
            f"{self.us:.1f} us, {self.wire_bytes} bytes sent"
        )
