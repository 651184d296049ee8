"""A picture, and the hook by which layouts and plans are drawn.

Layouts and plans are defined below the code that draws them. So the top package registers that code
once (`draw_with`), and their `plot` methods look it up when they are called (`drawer`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from ..errors import ShardpropError

__all__ = ["Drawer", "Picture", "draw_with", "drawer"]


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


class Drawer(Protocol):
    """Draws layouts (`model.plan_steps.Layout`) and plans (`redistribution.plan.Plan`)."""

    def draw_layout(
        self,
        layout: Any,
        shape: Sequence[int],
        mesh_shape: Sequence[int],
        mesh_dim_names: Sequence[str] | None,
        dims: Sequence[int] | None,
    ) -> Picture:
        """Which rank holds which block of a tensor."""

    def plot_plan(self, plan: Any, *, dims: Sequence[int] | None = None) -> Picture:
        """The layouts that a plan passes through, with the steps between them."""


_load: Callable[[], Drawer] | None = None


def draw_with(load: Callable[[], Drawer]) -> None:
    """Register what draws: `load` returns it, and is called for each picture."""
    global _load
    _load = load


def drawer() -> Drawer:
    """What draws, as registered."""
    assert _load is not None, "shardprop/__init__.py registers it"
    return _load()
