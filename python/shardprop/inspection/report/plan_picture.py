"""The picture of a plan: layout after layout, and between them what leads from one to the next."""

from __future__ import annotations

from collections.abc import Sequence

from ...model.plan_steps import Step
from ...redistribution.plan import Plan
from ...support.picture import Picture
from ..words import bytes_text, dim_names, over_text, us_text
from .colours import step_colour
from .layout_picture import draw_view, tensor_size
from .subject import Subject, subject_of, subject_of_layout
from .svg import Sheet
from .view import View, drawn_dims, view_of

__all__ = ["draw_steps", "passed_through", "plot_plan"]

# Sizes of a tensor, of an arrow with its words (width and height), and of the name of a layout.
_WIDTH, _HEIGHT, _ARROW, _WORDS, _NAME = 150, 136, 118, 76, 26
_IN_A_ROW = 4
_MOST_BLOCKS = 64


def plot_plan(plan: Plan, *, dims: Sequence[int] | None = None) -> Picture:
    """The layouts that a plan passes through, with the step between each two.

    Every arrow says what runs, on which mesh dims, what it costs (microseconds) and what a rank
    sends (bytes). Ranks keep their colour, so that one sees where blocks go.

    Args:
        plan: What `shardprop.plan` gives, or an explanation of a decision holds.
        dims: The tensor dims to draw, as in `plot_layout`.

    Raises:
        ShardpropError: as `plot_layout`.
    """
    mesh = plan.src.mesh
    subjects = [subject_of(plan.src)]
    what = "nothing to do"
    if plan.steps:
        subjects = passed_through(plan.steps, plan.src.shape, tuple(mesh.shape), dim_names(mesh))
        sent = f"{bytes_text(plan.wire_bytes)} sent by a rank"
        what = f"{us_text(plan.cost_us)}, {sent} ({plan.policy})"
    ends = f"{subjects[0].text} → {subjects[-1].text}"
    return draw_steps(subjects, plan.steps, (ends, f"{subjects[0].of}: {what}"), dims)


def passed_through(
    steps: Sequence[Step], shape: Sequence[int], mesh_shape: Sequence[int], names: Sequence[str]
) -> list[Subject]:
    """A tensor before the first step, and after each."""
    layouts = [steps[0].before, *(step.after for step in steps)]
    return [subject_of_layout(layout, shape, mesh_shape, names) for layout in layouts]


def draw_steps(
    subjects: Sequence[Subject],
    steps: Sequence[Step],
    head: tuple[str, str] | None = None,
    dims: Sequence[int] | None = None,
) -> Picture:
    """Layouts of one tensor, with an arrow for the step between each two.

    Args:
        subjects: The layouts.
        steps: One fewer.
        head: Two lines above; None where they stand beside the picture.
        dims: The tensor dims to draw, as in `plot_layout`.
    """
    drawn = drawn_dims(subjects, dims)
    cutting = sorted({mesh_dim for subject in subjects for mesh_dim in subject.cutting})
    views = [view_of(subject, drawn, cutting, _MOST_BLOCKS) for subject in subjects]
    width, height = tensor_size(views[0], _WIDTH, _HEIGHT, 0.85, 1.3)
    notes = _notes(views)
    rows = -(-len(views) // _IN_A_ROW)
    # Every row but the first begins with an arrow.
    indent = _ARROW if rows > 1 else 0
    across = indent + min(len(views), _IN_A_ROW) * (width + _ARROW) - _ARROW
    top, per_row = (60 if head else 4), _NAME + max(height, _WORDS) + 24
    page = max(across + 32, 9 * max(map(len, head)) if head else 0)
    names = " to ".join(subject.text for subject in subjects)
    on = Sheet(page, top + rows * per_row + 18 * len(notes), names)
    if head:
        on.bold(page / 2, 18, head[0], 16)
        on.text(page / 2, 40, head[1], 11.5)
    for number, (subject, view) in enumerate(zip(subjects, views, strict=True)):
        row, column = divmod(number, _IN_A_ROW)
        x = (page - across) / 2 + indent + column * (width + _ARROW)
        y = top + row * per_row + _NAME + max(_WORDS - height, 0) / 2
        on.bold(x + width / 2, y - 13, subject.text, 12)
        draw_view(on, view, (x, y, width, height))
        if number:
            _arrow(on, steps[number - 1], subject.names, x - _ARROW, y + height / 2)
    for number, note in enumerate(notes):
        on.text(page / 2, top + rows * per_row + 18 * number, note)
    return on.picture()


def _notes(views: Sequence[View]) -> list[str]:
    """What the pictures alone do not say; over which mesh dims is in the name of each layout."""
    notes = []
    if any(view.copied_over for view in views):
        notes.append("dotted: the same on several ranks")
    if any(view.pending_over for view in views):
        notes.append("striped: Partial, still to be reduced")
    return notes + list(dict.fromkeys(remark for view in views for remark in view.remarks))


def _arrow(on: Sheet, step: Step, names: Sequence[str], x: float, y: float) -> None:
    middle = x + _ARROW / 2
    on.arrow(x + 10, y, _ARROW - 20, step_colour(step.kind))
    on.bold(middle, y - 28, step.kind)
    on.text(middle, y - 12, f"over {over_text(names, step.mesh_dims)}")
    on.text(middle, y + 15, us_text(step.us))
    on.text(middle, y + 30, bytes_text(step.wire_bytes))
