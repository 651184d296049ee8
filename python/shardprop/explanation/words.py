"""Placements, mesh dims and prices in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._torch import DeviceMesh, DTensorSpec, Partial, Placement, Replicate, StridedShard
from ..plans import Layout
from ..redistribute_hook import layout_text

__all__ = [
    "dim_names",
    "dtype_text",
    "listed",
    "placed_on",
    "placements_text",
    "spec_text",
    "us_text",
]


def dim_names(mesh: DeviceMesh) -> tuple[str, ...]:
    """Names of mesh dims; their numbers where they have none."""
    return mesh.mesh_dim_names or tuple(map(str, range(mesh.ndim)))


def spec_text(spec: DTensorSpec) -> str:
    """A layout in torch's short form, with the shard order where several mesh dims cut one dim."""
    order = tuple((entry.tensor_dim, entry.mesh_dims) for entry in spec.shard_order or ())
    return layout_text(Layout(spec.placements, order))


def placements_text(placements: Sequence[Placement | None] | None) -> str:
    """Placements in torch's short form; ``-`` for an output that is absent."""
    return "-" if placements is None else "".join("-" if p is None else str(p) for p in placements)


def dtype_text(dtype: object) -> str:
    """``torch.float32`` as ``float32``."""
    return str(dtype).removeprefix("torch.")


def us_text(us: float) -> str:
    """Microseconds with their unit."""
    return "inf" if math.isinf(us) else f"{us:.1f} us"


def listed(items: Sequence[object]) -> str:
    """``a, b and c``."""
    texts = [*map(str, items)]
    return " and ".join([*([", ".join(texts[:-1])] if len(texts) > 1 else []), *texts[-1:]])


def placed_on(placement: Placement, name: str, mesh_dim: str) -> str:
    """What to do to a tensor so that it has the placement on one mesh dim."""
    if isinstance(placement, Replicate):
        return f"replicate {name} on mesh dim `{mesh_dim}`"
    if isinstance(placement, Partial):
        return f"leave {name} {placement} on mesh dim `{mesh_dim}`"
    if isinstance(placement, StridedShard):
        return f"place {name} {placement} on mesh dim `{mesh_dim}`"
    return f"shard {name} on dim {placement.dim} of mesh dim `{mesh_dim}`"  # type: ignore[attr-defined]
