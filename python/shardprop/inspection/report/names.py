"""Names as the report shows them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

__all__ = ["Places", "mesh_text", "over_text", "short"]

_MASK_PARTIAL = re.compile(r"MaskP\((\w+), torch\.Size\(\[[^\]]*\]\), -?\d+\)")


def short(layouts: str) -> str:
    """A text of layouts, its masked partials without what they mask."""
    return _MASK_PARTIAL.sub(r"MaskP(\1)", layouts).replace("-->", " ⇒ ").replace("->", " → ")


def mesh_text(mesh: dict[str, Any]) -> str:
    """``dp=2, tp=4``; ``2x4 ranks`` for a mesh without names."""
    names, sizes = mesh["dim_names"], mesh["shape"]
    if all(name.isdigit() for name in names):
        return "x".join(map(str, sizes)) + " ranks"
    return ", ".join(f"{name}={size}" for name, size in zip(names, sizes, strict=True))


def over_text(mesh: dict[str, Any], mesh_dims: Sequence[int]) -> str:
    """``dp, tp``; ``dim 0`` for a mesh without names."""
    names = [mesh["dim_names"][mesh_dim] for mesh_dim in mesh_dims]
    return ", ".join(f"dim {name}" if name.isdigit() else name for name in names)


class Places:
    """The places of a trace as short texts: files from where their paths differ."""

    def __init__(self, places: Sequence[dict[str, Any]]) -> None:
        self._places = places
        folders = {os.path.dirname(place["file"]) for place in places if place["file"]}
        try:
            self._common = os.path.commonpath(folders) if folders else ""
        except ValueError:  # relative and absolute paths, or two drives
            self._common = ""

    def where(self, index: int) -> str:
        """``model.py:106``; empty where no line is known."""
        place = self._places[index]
        if not place["file"]:
            return ""
        file = place["file"]
        if self._common:
            file = os.path.relpath(file, self._common)
        return f"{file}:{place['line']}"

    def module(self, index: int) -> str:
        """The module, and whether it is its backward."""
        place = self._places[index]
        return f"{place['module']} (backward)" if place["backward"] else str(place["module"])
