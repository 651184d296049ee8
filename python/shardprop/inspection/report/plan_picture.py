"""The picture of a plan: layout after layout, and between them what leads from one to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...model.plan_steps import Step
from ...redistribution.plan import Plan
from .canvas import Canvas, canvas
from .colours import step_colour
from .layout_picture import draw_view, tensor_size
from .subject import Subject, mesh_dim_names, subject_of, subject_of_layout
from .view import View, cut_mesh_dims, drawn_dims, view_of
from .words import bytes_text, us_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_plan"]

# Inches: of a tensor, of an arrow with its words, of the head of a row of layouts.
_TENSOR, _ARROW, _HEAD = 1.9, 1.35, 0.35
_IN_A_ROW = 4


def plot_plan(plan: Plan, *, dims: Sequence[int] | None = None, ax: Axes | None = None) -> Axes:
    """The layouts that a plan passes through, with the step between each two.

    Every arrow says what runs, on which mesh dims, what it costs (microseconds) and what a rank
    sends (bytes). Ranks keep their colour, so that one sees where blocks go.

    Args:
        plan: What `shardprop.plan` gives, or an explanation of a decision holds.
        dims: The tensor dims to draw, as in `plot_layout`.
        ax: Where to draw; None: in a new figure.

    Raises:
        ShardpropError: as `plot_layout`.
    """
    subjects = _subjects(plan)
    drawn = drawn_dims(subjects, dims)
    cut = {mesh_dim for subject in subjects for mesh_dim in cut_mesh_dims(subject)}
    views = [view_of(subject, drawn, sorted(cut)) for subject in subjects]
    width, height = tensor_size(views[0], _TENSOR, 1.7, 0.85, 1.3)
    notes = _notes(views)
    rows = -(-len(views) // _IN_A_ROW)
    across = 0.2 + min(len(views), _IN_A_ROW) * (width + _ARROW) - _ARROW + 0.2
    # Every row but the first begins with an arrow.
    across += _ARROW if rows > 1 else 0
    page = max(across, 5.6)
    per_row = _HEAD + height + 0.3
    on = canvas(ax, page, 0.75 + rows * per_row + 0.2 * len(notes))
    on.text(page / 2, 0.18, f"{subjects[0].text} → {subjects[-1].text}", 12, fontweight="bold")
    on.text(page / 2, 0.42, _sums(plan, subjects[0]), 8.5)
    indent = (page - across) / 2 + 0.2 + (_ARROW if rows > 1 else 0)
    for number, view in enumerate(views):
        row, column = divmod(number, _IN_A_ROW)
        x, y = indent + column * (width + _ARROW), 0.75 + row * per_row + _HEAD
        on.text(x + width / 2, y - 0.15, subjects[number].text or "scalar", 9, fontweight="bold")
        draw_view(on, view, x, y, width, height)
        if number:
            _arrow(on, plan.steps[number - 1], subjects[0].names, x - _ARROW, y + height / 2)
    for number, note in enumerate(notes):
        on.text(page / 2, 0.75 + rows * per_row + 0.2 * number - 0.08, note, 8)
    return on.ax


def _notes(views: Sequence[View]) -> list[str]:
    """What the pictures alone do not say; over which mesh dims is in the name of each layout."""
    notes = []
    if any(view.copied_over for view in views):
        notes.append("dotted: the same on several ranks")
    if any(view.pending_over for view in views):
        notes.append("striped: Partial, still to be reduced")
    rest = (replace(view, copied_over=(), pending_over=()).notes for view in views)
    return notes + list(dict.fromkeys(note for each in rest for note in each))


def _subjects(plan: Plan) -> list[Subject]:
    """The layouts before and after each step; without a step the one that there is."""
    if not plan.steps:
        return [subject_of(plan.src)]
    mesh = plan.src.mesh
    names = mesh_dim_names(mesh)
    layouts = [plan.steps[0].before, *(step.after for step in plan.steps)]
    return [subject_of_layout(each, plan.src.shape, tuple(mesh.shape), names) for each in layouts]


def _sums(plan: Plan, subject: Subject) -> str:
    mesh = ", ".join(f"{n}={s}" for n, s in zip(subject.names, subject.mesh_shape, strict=True))
    if all(name.isdigit() for name in subject.names):
        mesh = "x".join(map(str, subject.mesh_shape))
    if not plan.steps:
        return f"{list(subject.shape)} on mesh {mesh}: nothing to do"
    return (
        f"{list(subject.shape)} on mesh {mesh}: {us_text(plan.cost_us)}, "
        f"{bytes_text(plan.wire_bytes)} sent by a rank ({plan.policy})"
    )


def _arrow(on: Canvas, step: Step, names: Sequence[str], x: float, y: float) -> None:
    middle = x + _ARROW / 2
    on.arrow(x + 0.14, y, _ARROW - 0.28, step_colour(step.kind))
    over = ", ".join(names[mesh_dim] for mesh_dim in step.mesh_dims)
    word = "mesh dim " if all(names[mesh_dim].isdigit() for mesh_dim in step.mesh_dims) else ""
    on.text(middle, y - 0.34, step.kind, 8.5, fontweight="bold")
    on.text(middle, y - 0.16, f"over {word}{over}", 8)
    on.text(middle, y + 0.18, us_text(step.comm_us + step.local_us), 8)
    on.text(middle, y + 0.36, bytes_text(step.wire_bytes), 8)
