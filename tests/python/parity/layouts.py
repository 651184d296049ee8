"""Operands: a tensor laid out on a mesh, drawn at random in every way torch can lay it out."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from enum import Enum

import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import (
    DTensorSpec,
    ShardOrder,
    ShardOrderEntry,
    TensorMeta,
)
from torch.distributed.tensor._ops._math_ops import _NormPartial
from torch.distributed.tensor.placement_types import Placement, _MaskPartial, _StridedShard

from .meshes import MeshKey
from .sketch import Sketch


class Kind(Enum):
    """What is unusual about a layout; the strata of the sampler and of the summary."""

    PLAIN = "plain"
    ORDERED = "ordered"  # an explicit shard order that is not the default one
    STRIDED_ORDER = "strided-order"  # _StridedShard that encodes an order (flag True)
    STRIDED_VIEW = "strided-view"  # _StridedShard as views make it (flag False)
    MASK_PARTIAL = "mask-partial"
    NORM_PARTIAL = "norm-partial"  # a Partial subclass that nothing but torch's norms knows


@dataclass(frozen=True, slots=True)
class Layout:
    """Placements on a mesh, the shard order if not the default one, and the strided flag."""

    mesh: MeshKey
    placements: tuple[Placement, ...]
    shard_order: ShardOrder | None = None
    strided_is_order: bool | None = None

    @property
    def kind(self) -> Kind:
        if any(isinstance(p, _StridedShard) for p in self.placements):
            return Kind.STRIDED_VIEW if self.strided_is_order is False else Kind.STRIDED_ORDER
        if self.shard_order is not None:
            return Kind.ORDERED
        if any(isinstance(p, _MaskPartial) for p in self.placements):
            return Kind.MASK_PARTIAL
        if any(isinstance(p, _NormPartial) for p in self.placements):
            return Kind.NORM_PARTIAL
        return Kind.PLAIN

    def __str__(self) -> str:
        text = "".join(str(p) for p in self.placements)
        if self.shard_order is not None:
            text += " order " + str([(e.tensor_dim, *e.mesh_dims) for e in self.shard_order])
        if self.kind is Kind.STRIDED_VIEW:
            text += " (as view)"
        return text


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor argument of a decision."""

    sketch: Sketch
    layout: Layout

    def spec(self) -> DTensorSpec:
        """A new spec each time: torch's code writes into some of them."""
        sketch, layout = self.sketch, self.layout
        return DTensorSpec(
            layout.mesh.build(),
            layout.placements,
            tensor_meta=TensorMeta(torch.Size(sketch.shape), sketch.stride, sketch.dtype),
            shard_order=layout.shard_order,  # type: ignore[arg-type]
            use_strided_shard_as_shard_order=layout.strided_is_order,
        )

    def __str__(self) -> str:
        dtype = str(self.sketch.dtype).removeprefix("torch.")
        return f"{dtype}{list(self.sketch.shape)}{self.layout}"


# torch reduces with eight operations; rules speak of four of them.
_REDUCTIONS = ("sum", "avg", "max", "min", "product", "band", "bor", "bxor")
_REDUCTION_WEIGHTS = (48, 20, 12, 12, 3, 2, 2, 1)


def draw_placements(rng: random.Random, ndim: int, mesh: MeshKey) -> tuple[Placement, ...]:
    """Placements without anything unusual: one kind of Partial, default order."""
    shard = 0.48 if ndim else 0.0
    reduction = draw_reduction(rng)
    mixed = rng.random() < 0.03  # torch refuses mixed reductions, but only in some places
    placements: list[Placement] = []
    for _ in range(mesh.ndim):
        luck = rng.random()
        if luck < shard:
            placements.append(Shard(rng.randrange(ndim)))
        elif luck >= shard + 0.2:
            placements.append(Replicate())
        elif mixed:
            placements.append(Partial(draw_reduction(rng)))
        elif reduction in ("sum", "avg") and rng.random() < 0.1:
            placements.append(Partial(rng.choice(("sum", "avg"))))  # the one mix torch allows
        else:
            placements.append(Partial(reduction))
    return tuple(placements)


def draw_reduction(rng: random.Random) -> str:
    return rng.choices(_REDUCTIONS, _REDUCTION_WEIGHTS)[0]


def draw_layout(rng: random.Random, ndim: int, mesh: MeshKey, kind: Kind = Kind.PLAIN) -> Layout:
    """A layout of the given kind if the tensor and the mesh allow it, else a plain one."""
    return twist(rng, ndim, Layout(mesh, draw_placements(rng, ndim, mesh)), kind)


def twist(rng: random.Random, ndim: int, layout: Layout, kind: Kind) -> Layout:
    """`layout` changed to be of the given kind where that is possible, else as it is."""
    mesh = layout.mesh
    match kind:
        case Kind.ORDERED if ndim and mesh.ndim > 1:
            placements, order = _stack_shards(rng, ndim, layout)
            default = DTensorSpec.compute_default_shard_order(placements)
            return Layout(mesh, placements, None if order == default else order)
        case Kind.STRIDED_ORDER if ndim:
            return Layout(mesh, _encode_order(rng, ndim, layout), strided_is_order=True)
        case Kind.STRIDED_VIEW if ndim:
            return Layout(mesh, _strided_like_views(rng, ndim, layout), strided_is_order=False)
        case Kind.MASK_PARTIAL:
            return Layout(mesh, _with(rng, layout, _mask_partial(rng)))
        case Kind.NORM_PARTIAL:
            return Layout(mesh, _with(rng, layout, _NormPartial(rng.choice((1, 2, 3)))))
    return layout


def _stack_shards(
    rng: random.Random, ndim: int, layout: Layout
) -> tuple[tuple[Placement, ...], ShardOrder]:
    """Two or more mesh dims on one tensor dim, applied in random order."""
    dim = rng.randrange(ndim)
    placements: list[Placement] = [
        Shard(p.dim) if isinstance(p, _StridedShard) else p for p in layout.placements
    ]
    chosen = rng.sample(range(layout.mesh.ndim), rng.randint(2, layout.mesh.ndim))
    for mesh_dim in chosen:
        placements[mesh_dim] = Shard(dim)
    per_dim: dict[int, list[int]] = {}
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            per_dim.setdefault(placement.dim, []).append(mesh_dim)
    for mesh_dims in per_dim.values():
        rng.shuffle(mesh_dims)
    order = tuple(
        ShardOrderEntry(tensor_dim=dim, mesh_dims=tuple(mesh_dims))
        for dim, mesh_dims in sorted(per_dim.items())
    )
    return tuple(placements), order


def _encode_order(rng: random.Random, ndim: int, layout: Layout) -> tuple[Placement, ...]:
    """Strided shards that encode an order, or (one in four) that encode none."""
    if layout.mesh.ndim > 1 and rng.random() < 0.75:
        for _ in range(8):
            placements, order = _stack_shards(rng, ndim, layout)
            encoded = DTensorSpec._convert_shard_order_to_StridedShard(
                order, placements, layout.mesh.build()
            )
            if any(isinstance(p, _StridedShard) for p in encoded):
                return tuple(encoded)
    return _strided_like_views(rng, ndim, layout)


def _strided_like_views(rng: random.Random, ndim: int, layout: Layout) -> tuple[Placement, ...]:
    """At least one strided shard; its factor is what flattening gives (a mesh or tensor size)."""
    placements = list(layout.placements)
    factors = [size for size in layout.mesh.sizes if size > 1] + [2, 3]
    wanted = rng.randrange(layout.mesh.ndim)
    for mesh_dim, placement in enumerate(placements):
        if mesh_dim == wanted or (isinstance(placement, Shard) and rng.random() < 0.3):
            dim = placement.dim if isinstance(placement, Shard) else rng.randrange(ndim)
            placements[mesh_dim] = _StridedShard(dim, split_factor=rng.choice(factors))
    return tuple(placements)


def _with(rng: random.Random, layout: Layout, special: Placement) -> tuple[Placement, ...]:
    placements = [Replicate() if p.is_partial() else p for p in layout.placements]
    placements[rng.randrange(layout.mesh.ndim)] = special
    if rng.random() < 0.2:
        placements[rng.randrange(layout.mesh.ndim)] = special
    return tuple(placements)


@functools.lru_cache(maxsize=8)
def _mask_buffers(offset: int) -> _MaskPartial:
    # One object per shape: two operands of a case may share its mask buffer, as the output and the
    # indices of an embedding do.
    return _MaskPartial(offset_shape=torch.Size((8 * (1 + offset), 4)), offset_dim=0)


def _mask_partial(rng: random.Random) -> _MaskPartial:
    return _mask_buffers(rng.randrange(3))
