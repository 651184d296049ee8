"""The picture of a layout: the tensor cut into blocks, each with the ranks that hold it."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.plan_steps import Layout
from ...support.picture import Picture
from .subject import Subject, subject_of, subject_of_layout
from .svg import Box, Sheet
from .view import Cell, View, drawn_dims, view_of

__all__ = ["draw_layout", "draw_view", "plot_layout", "tensor_size"]

_LEFT, _TOP = 68, 84
_MOST_TICKS = 9
# With more blocks there are no tooltips: they would be most of the file.
_MOST_NAMED = 32


def plot_layout(given: object, *, dims: Sequence[int] | None = None) -> Picture:
    """Which rank holds which block of a tensor.

    Blocks are coloured by the mesh coordinates of the ranks that hold them; where several ranks
    hold the same values the block is dotted, and where a Partial is pending it is striped. A tensor
    of more than two dims is drawn in two of them, and the picture says which.

    Args:
        given: A DTensor, or a DTensorSpec with tensor metadata. For a `Layout` call its `plot`.
        dims: The tensor dims to draw, as rows and columns; None: those that are cut, then the
            largest.

    Raises:
        ShardpropError: `given` cannot be drawn, or `dims` are not of the tensor.
    """
    return _drawn(subject_of(given), dims)


def draw_layout(
    layout: Layout,
    shape: Sequence[int],
    mesh_shape: Sequence[int],
    mesh_dim_names: Sequence[str] | None,
    dims: Sequence[int] | None,
) -> Picture:
    """The same of a layout alone (`Layout.plot`)."""
    return _drawn(subject_of_layout(layout, shape, mesh_shape, mesh_dim_names), dims)


def _drawn(subject: Subject, dims: Sequence[int] | None) -> Picture:
    view = view_of(subject, drawn_dims([subject], dims))
    width, height = tensor_size(view, 400, 340)
    page = max(_LEFT + width + 28, 470)
    below = _TOP + height + 24
    on = Sheet(page, below + 20 * len(view.notes), f"{subject.text}: which rank holds which block")
    x = _LEFT + (page - _LEFT - width - 28) / 2
    on.bold(x + width / 2, 18, subject.text, 16)
    on.text(x + width / 2, 40, subject.of, 11.5)
    draw_view(on, view, (x, _TOP, width, height))
    _ticks(on, view, (x, _TOP, width, height))
    for number, note in enumerate(view.notes):
        on.text(page / 2, below + 20 * number, note)
    return on.picture()


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


def draw_view(on: Sheet, view: View, box: Box) -> None:
    """Draw a layout into a box: its blocks, patterns, labels, and the outline of the tensor."""
    x, y, width, height = box
    rows, columns = (max(size, 1) for size in view.sizes)
    across, down = width / columns, height / rows
    drawn: list[tuple[Cell, list[Box]]] = [
        (
            cell,
            [
                (x + left * across, y + top * down, (right - left) * across, (bottom - top) * down)
                for (top, bottom), (left, right) in cell.boxes
            ],
        )
        for cell in view.cells
    ]
    # A line must not hide what it is around.
    thinnest = min((min(w, h) for _, boxes in drawn for _, _, w, h in boxes), default=1.0)
    line = "#fff" if thinnest > 3 else "none"
    with on.group(class_="blocks", stroke=line):
        for cell, boxes in drawn:
            title = f"{_ranks(cell)}: {cell.who}" if len(drawn) <= _MOST_NAMED else ""
            on.boxes(boxes, title, fill=cell.colour)
    if view.copied_over:
        on.dots(box)
    if view.pending_over:
        on.stripes(box)
    has_pattern = bool(view.copied_over or view.pending_over)
    for cell, boxes in drawn:
        for left, top, w, h in boxes:
            middle = left + w / 2, top + h / 2
            plate = cell.colour if has_pattern else None
            if not on.fitted(*middle, (w, h), [_ranks(cell), cell.who], 13, plate):
                on.fitted(*middle, (w, h), [cell.label], 10.5, plate)
    on.boxes([box], class_="frame", fill="none", stroke="currentColor", stroke_width=1.5)


def _ranks(cell: Cell) -> str:
    return f"rank{'s' * (len(cell.ranks) > 1)} {cell.label}"


def _ticks(on: Sheet, view: View, box: Box) -> None:
    """Indices beside the tensor, and which dims are drawn."""
    x, y, width, height = box
    rows, columns = view.sizes
    row_dim, column_dim = view.dims
    if column_dim is not None:
        for index in _edges(view, 1):
            on.text(x + index * width / columns, y - 9, str(index), 10)
        on.text(x + width / 2, y - 25, f"tensor dim {column_dim}", 11.5)
    if row_dim is not None:
        for index in _edges(view, 0):
            on.text(x - 7, y + index * height / rows, str(index), 10, text_anchor="end")
        left, middle = x - 48, y + height / 2
        turned = f"rotate(-90 {left:.0f} {middle:.0f})"
        on.text(left, middle, f"tensor dim {row_dim}", 11.5, transform=turned)


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
