"""Drawing on matplotlib axes in inches; the only file here that imports matplotlib.

matplotlib is an extra, and is imported when the first picture is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ShardpropError
from .colours import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Canvas", "canvas", "new_axes"]

_LEAST_FONT = 5.5
# Width of a character of the default font, and height of a line, in parts of the font size.
_CHARACTER, _LINE = 0.58, 1.3


def new_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """`ax`, or the axes of a new figure of that size in inches.

    Raises:
        ShardpropError: matplotlib is not installed, or `ax` is no axes of matplotlib.
    """
    try:
        from matplotlib import axes, pyplot
    except ImportError:
        raise ShardpropError(
            "Expected matplotlib for a picture, got none: pip install 'shardprop[plot]'."
        ) from None
    if ax is None:
        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, axes.Axes):
        raise ShardpropError(f"ax: Expected an Axes of matplotlib, got a {type(ax).__name__}.")
    return ax


def canvas(ax: Axes | None, width: float, height: float) -> Canvas:
    """A canvas of `width` by `height` units, an inch each if the figure is new.

    Raises:
        ShardpropError: as `new_axes`.
    """
    ax = new_axes(ax, width, height)
    ax.set_xlim(0, width)
    ax.set_ylim(height, 0)
    ax.set_aspect("equal")
    ax.set_axis_off()
    bounds = ax.get_window_extent()
    dpi = ax.figure.dpi
    return Canvas(ax, min(bounds.width / dpi / width, bounds.height / dpi / height))


class Canvas:
    """Axes whose origin is at the top left, and whose unit is about an inch.

    Attributes:
        ax: The axes.
    """

    def __init__(self, ax: Axes, inches: float) -> None:
        self.ax = ax
        self._inches = inches

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        hatch: str = "",
        line: str = "white",
    ) -> None:
        """A filled box, with a pattern over it."""
        from matplotlib.patches import Rectangle

        self.ax.add_patch(
            Rectangle((x, y), width, height, facecolor=fill, edgecolor=line, linewidth=1.0)
        )
        if hatch:
            pattern: dict[str, Any] = {"hatch": hatch, "fill": False, "linewidth": 0}
            self.ax.add_patch(
                Rectangle((x, y), width, height, edgecolor=(0.1, 0.12, 0.14, 0.3), **pattern)
            )

    def frame(self, x: float, y: float, width: float, height: float) -> None:
        """The outline of a tensor."""
        from matplotlib.patches import Rectangle

        self.ax.add_patch(
            Rectangle((x, y), width, height, fill=False, edgecolor=INK, linewidth=1.2)
        )

    def text(self, x: float, y: float, text: str, size: float = 9, **style: Any) -> None:
        """A text; `ha` and `va` as in matplotlib."""
        style = {"ha": "center", "va": "center", "color": INK, **style}
        # A `$` in a name is no formula.
        self.ax.text(x, y, text, fontsize=size, parse_math=False, **style)

    def fitted(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        lines: Sequence[str],
        size: float,
        plate: str | None = None,
    ) -> bool:
        """As many of `lines` as fit into the box around (x, y), the first in bold.

        Args:
            x: The middle of the box.
            y: Likewise.
            width: Of the box.
            height: Of the box.
            lines: The first matters most.
            size: The font size at most.
            plate: A colour to put behind the text, where a pattern would run through it.

        Returns:
            Whether even the first line fitted.
        """
        behind = plate and {"facecolor": plate, "edgecolor": "none", "boxstyle": "square,pad=0.15"}
        for count in range(len(lines), 0, -1):
            font = self._font(width, height, lines[:count], size)
            if font >= _LEAST_FONT:
                step = font * _LINE / 72 / self._inches
                top = y - step * (count - 1) / 2
                for number, line in enumerate(lines[:count]):
                    weight = "normal" if number else "bold"
                    self.text(x, top + number * step, line, font, fontweight=weight, bbox=behind)
                return True
        return False

    def arrow(self, x: float, y: float, length: float, colour: str) -> None:
        """An arrow to the right."""
        from matplotlib.patches import FancyArrowPatch

        self.ax.add_patch(
            FancyArrowPatch(
                (x, y),
                (x + length, y),
                arrowstyle="-|>",
                mutation_scale=14,
                linewidth=2.2,
                color=colour,
                shrinkA=0,
                shrinkB=0,
            )
        )

    def _font(self, width: float, height: float, lines: Sequence[str], size: float) -> float:
        """The font size, at most `size`, at which the lines fit into a box."""
        longest = max(map(len, lines))
        room = self._inches * 72
        return min(
            size,
            0.94 * width * room / (longest * _CHARACTER),
            0.94 * height * room / (len(lines) * _LINE),
        )
