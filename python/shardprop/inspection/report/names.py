"""Names as the report shows them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ..words import without_masks

__all__ = ["Places", "short"]


def short(layouts: str) -> str:
    """A text of layouts, its masked partials without what they mask."""
    return without_masks(layouts).replace("-->", " ⇒ ").replace("->", " → ")


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
