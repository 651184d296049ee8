"""What a picture of a layout is of: a tensor, a mesh, a layout."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from ... import _torch
from ..._torch import DTensor, DTensorSpec
from ...errors import ShardpropError
from ...model.plan_steps import Layout
from ...redistribution.hook import layout_text
from ..words import dim_names, mesh_text
from .geometry import Block, blocks

__all__ = ["Subject", "subject_of", "subject_of_layout"]


@dataclass(frozen=True)
class Subject:
    """A tensor laid out over a mesh.

    Attributes:
        layout: Its placements and their order.
        shape: Of the whole tensor.
        mesh_shape: How many ranks there are along each mesh dim.
        names: One for each mesh dim; its number where it has none.
    """

    layout: Layout
    shape: tuple[int, ...]
    mesh_shape: tuple[int, ...]
    names: tuple[str, ...]

    @functools.cached_property
    def blocks(self) -> list[Block]:
        """What each rank holds."""
        return blocks(self.layout, self.shape, self.mesh_shape)

    @property
    def cutting(self) -> tuple[int, ...]:
        """The mesh dims of size over 1 that cut the tensor."""
        first = self.blocks[0]
        apart = {*first.copied_over, *first.pending_over}
        return tuple(m for m, ranks in enumerate(self.mesh_shape) if ranks > 1 and m not in apart)

    def is_cut(self, tensor_dim: int) -> bool:
        """Does a rank hold but a part of a tensor dim?"""
        whole = ((0, self.shape[tensor_dim]),)
        return any(b.intervals[tensor_dim] != whole for b in self.blocks if not b.empty)

    @property
    def text(self) -> str:
        """The layout in torch's short form."""
        return layout_text(self.layout) or "scalar"

    @property
    def of(self) -> str:
        """The tensor and the mesh."""
        return f"{list(self.shape)} on {mesh_text(self.names, self.mesh_shape)}"


def subject_of(given: object) -> Subject:
    """What a DTensor or a spec is.

    Raises:
        ShardpropError: it is neither; a spec without a tensor's shape; a shape that is symbolic.
    """
    spec = _torch.spec_of(given) if isinstance(given, DTensor) else given
    if not isinstance(spec, DTensorSpec):
        raise ShardpropError(
            f"Expected a DTensor or a DTensorSpec to draw, got a {type(given).__name__}: for a "
            "Layout call its plot(shape, mesh_shape)."
        )
    if spec.tensor_meta is None:
        raise ShardpropError("Expected a spec with tensor_meta to draw, got none: it has no shape.")
    layout = Layout(*_torch.decoded_layout(spec))
    mesh = spec.mesh
    return subject_of_layout(layout, spec.tensor_meta.shape, tuple(mesh.shape), dim_names(mesh))


def subject_of_layout(
    layout: Layout,
    shape: Sequence[int],
    mesh_shape: Sequence[int],
    names: Sequence[str] | None = None,
) -> Subject:
    """A layout of a tensor of `shape` over a mesh of `mesh_shape`.

    Raises:
        ShardpropError: names for another number of mesh dims.
    """
    if names is None:
        names = tuple(map(str, range(len(mesh_shape))))
    if len(names) != len(mesh_shape):
        raise ShardpropError(
            f"mesh_dim_names: Expected one for each of {len(mesh_shape)} mesh dims, got "
            f"{tuple(names)}."
        )
    return Subject(layout, tuple(shape), tuple(mesh_shape), tuple(names))
