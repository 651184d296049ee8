"""A picture, and who draws it.

What is drawn (a layout, a plan) stands far below what draws, so the top package says once which
module that is (`draw_with`), and `plot` asks for it when it is called.
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
    """A picture that a notebook shows, and that can be saved.

    Attributes:
        svg: The picture as an SVG document, which needs no other file.
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
    """What draws layouts (`model.plan_steps.Layout`) and plans (`redistribution.plan.Plan`)."""

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
    """From now on `load` says who draws; it is called when the first picture is drawn."""
    global _load
    _load = load


def drawer() -> Drawer:
    """Who draws."""
    assert _load is not None, "shardprop/__init__.py sets it"
    return _load()
