"""A picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from ..errors import ShardpropError

__all__ = ["Picture"]


@dataclass(frozen=True)
class Picture:
    """A picture: a notebook shows it, and `save` writes it to a file.

    Attributes:
        svg: The picture as a self-contained SVG document.
    """

    svg: str = field(repr=False)

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file.

        Raises:
            ShardpropError: `path` does not end in ``.svg``.
            OSError: it cannot be written.
        """
        if Path(path).suffix.lower() != ".svg":
            raise ShardpropError(
                f"path: Expected a file that ends in .svg, got {str(path)!r}: pictures are SVG, "
                "which browsers and image tools turn into other formats."
            )
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg
