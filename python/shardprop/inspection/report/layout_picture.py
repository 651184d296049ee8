"""The picture of a layout: the tensor cut into blocks, each with the ranks that hold it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .canvas import Canvas, canvas
from .subject import Subject, subject_of
from .view import Cell, View, drawn_dims, view_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_view", "plot_layout", "plot_subject", "tensor_size"]

_COPIED, _PENDING = "..", "////"
_MOST_TICKS = 9


def plot_layout(
    given: object, *, dims: Sequence[int] | None = None, ax: Axes | None = None
) -> Axes:
    """Which rank holds which block of a tensor.

    Blocks are coloured by the mesh coordinates of the ranks that hold them; where several ranks
    hold the same values the block is dotted, and where a Partial is pending it is striped. A tensor
    of more than two dims is drawn in two of them, and the picture says which.

    Args:
        given: A DTensor, or a DTensorSpec with tensor metadata. For a `Layout` call its `plot`.
        dims: The tensor dims to draw, as rows and columns; None: those that are cut, then the
            largest.
        ax: Where to draw; None: in a new figure. Nothing is shown: call
            ``matplotlib.pyplot.show()``, or save ``ax.figure``.

    Raises:
        ShardpropError: matplotlib is not installed, `given` cannot be drawn, or `dims` are not of
            the tensor.
    """
    return plot_subject(subject_of(given), dims, ax)


def plot_subject(subject: Subject, dims: Sequence[int] | None, ax: Axes | None) -> Axes:
    """The picture of one layout on axes of its own."""
    view = view_of(subject, drawn_dims([subject], dims))
    width, height = tensor_size(view, 4.2, 3.6)
    notes = view.notes
    left, top = 0.85, 0.95
    across = max(left + width + 0.3, 4.9)
    down = top + height + 0.25 + 0.22 * len(notes)
    on = canvas(ax, across, down)
    left += (across - left - width - 0.3) / 2
    on.text(left + width / 2, 0.18, subject.text or "scalar", 12, fontweight="bold")
    on.text(left + width / 2, 0.42, _of(subject), 8.5)
    draw_view(on, view, left, top, width, height, ticks=True)
    for number, note in enumerate(notes):
        on.text(across / 2, top + height + 0.27 + 0.22 * number, note, 8)
    return on.ax


def _of(subject: Subject) -> str:
    mesh = ", ".join(f"{n}={s}" for n, s in zip(subject.names, subject.mesh_shape, strict=True))
    if all(name.isdigit() for name in subject.names):
        mesh = "x".join(map(str, subject.mesh_shape))
    return f"{list(subject.shape)} on mesh {mesh}"


def tensor_size(
    view: View, width: float, height: float, narrowest: float = 0.6, widest: float = 1.8
) -> tuple[float, float]:
    """How large the tensor is drawn, within a width and a height: near its proportions.

    `narrowest` and `widest` bound width over height, so that labels find room.
    """
    rows, columns = view.sizes
    if view.dims[0] is None:
        return width, 0.22 * height
    ratio = min(max(columns / max(rows, 1), narrowest), widest)
    across = min(width, height * ratio)
    return across, across / ratio


def draw_view(
    on: Canvas, view: View, x: float, y: float, width: float, height: float, *, ticks: bool = False
) -> None:
    """Draw a layout into a box whose top left is (x, y); with `ticks`, indices beside it."""
    rows, columns = (max(size, 1) for size in view.sizes)
    hatch = (_COPIED if view.copied_over else "") + (_PENDING if view.pending_over else "")
    across, down = width / columns, height / rows
    for cell in view.cells:
        for (top, bottom), (left, right) in cell.boxes:
            at = (x + left * across, y + top * down)
            size = ((right - left) * across, (bottom - top) * down)
            on.box(*at, *size, cell.colour, hatch)
    for cell in view.cells:
        _label(on, cell, x, y, across, down, bool(hatch))
    on.frame(x, y, width, height)
    if ticks:
        _ticks(on, view, x, y, width, height)


def _label(
    on: Canvas, cell: Cell, x: float, y: float, across: float, down: float, hatched: bool
) -> None:
    word = "rank" if len(cell.ranks) == 1 else "ranks"
    for (top, bottom), (left, right) in cell.boxes:
        middle = (x + (left + right) / 2 * across, y + (top + bottom) / 2 * down)
        size = ((right - left) * across, (bottom - top) * down)
        lines = [f"{word} {cell.label}", cell.who]
        on.fitted(*middle, *size, lines, 10, plate=cell.colour if hatched else None) or on.fitted(
            *middle, *size, [cell.label], 8, plate=cell.colour if hatched else None
        )


def _ticks(on: Canvas, view: View, x: float, y: float, width: float, height: float) -> None:
    rows, columns = view.sizes
    row_dim, column_dim = view.dims
    if column_dim is not None:
        for index in _edges(view, 1):
            on.text(x + index * width / columns, y - 0.09, str(index), 7.5)
        on.text(x + width / 2, y - 0.26, f"tensor dim {column_dim}", 8.5)
    if row_dim is not None:
        for index in _edges(view, 0):
            on.text(x - 0.07, y + index * height / rows, str(index), 7.5, ha="right")
        on.text(x - 0.48, y + height / 2, f"tensor dim {row_dim}", 8.5, rotation=90)


def _edges(view: View, axis: int) -> list[int]:
    """The indices where blocks begin and end; the ends alone where there are too many."""
    size = view.sizes[axis]
    found = sorted({edge for cell in view.cells for box in cell.boxes for edge in box[axis]})
    found = sorted({0, size, *found}) if size else []
    if len(found) <= _MOST_TICKS:
        return found
    step = -(-(len(found) - 1) // (_MOST_TICKS - 1))
    kept = found[:-1:step]
    return [*kept[: None if found[-1] - kept[-1] > size / 20 else -1], found[-1]]
