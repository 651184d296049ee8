"""Placements, meshes, sizes and times as short words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .._torch import DeviceMesh, Placement

__all__ = [
    "bytes_text",
    "dim_names",
    "dtype_text",
    "mesh_text",
    "named_dim",
    "over_text",
    "placement_text",
    "placements_text",
    "us_text",
    "without_masks",
]

_MASK = re.compile(r"MaskP\((\w+), torch\.Size\(\[[^\]]*\]\), -?\d+\)")


def without_masks(layouts: str) -> str:
    """A text of layouts, its masked partials without the shape of the mask, the tensor's own."""
    return _MASK.sub(r"MaskP(\1)", layouts)


def placement_text(placement: Placement | None) -> str:
    """One placement in torch's short form; ``-`` for an output that is absent."""
    return "-" if placement is None else without_masks(str(placement))


def placements_text(placements: Sequence[Placement | None] | None) -> str:
    """Placements in torch's short form; ``-`` for an output that is absent."""
    return "-" if placements is None else "".join(map(placement_text, placements))


def dtype_text(dtype: object) -> str:
    """``torch.float32`` as ``float32``."""
    return str(dtype).removeprefix("torch.")


def dim_names(mesh: DeviceMesh) -> tuple[str, ...]:
    """Names of mesh dims; their numbers where they have none."""
    return mesh.mesh_dim_names or tuple(map(str, range(mesh.ndim)))


def named_dim(name: str) -> str:
    """A mesh dim in a sentence; a number alone would say nothing."""
    return f"mesh dim {name}" if name.isdecimal() else name


def over_text(names: Sequence[str], mesh_dims: Sequence[int]) -> str:
    """``dp, tp``; ``mesh dim 0`` for a mesh without names."""
    return ", ".join(named_dim(names[mesh_dim]) for mesh_dim in mesh_dims)


def mesh_text(names: Sequence[str], sizes: Sequence[int]) -> str:
    """``mesh dp=2, tp=4``; ``mesh 2x4`` without names."""
    if all(name.isdecimal() for name in names):
        return f"mesh {'x'.join(map(str, sizes))}"
    return "mesh " + ", ".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))


def bytes_text(count: float) -> str:
    """``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{_three(count)} {unit}"
        count /= 1024
    return f"{_three(count)} TiB"


def us_text(us: float) -> str:
    """``12.3 us``; milliseconds and seconds where it is that long."""
    if us == float("inf"):
        return "impossible"
    for unit in ("us", "ms"):
        if us < 1000:
            return f"{_three(us)} {unit}"
        us /= 1000
    return f"{_three(us)} s"


def _three(value: float) -> str:
    """Three digits, or more before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
