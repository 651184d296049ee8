"""The plans of a trace as HTML cards: who uses each plan, what it costs, and its picture."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Any

from ..._torch import Partial, Placement, Replicate, Shard, StridedShard
from ...model.plan_steps import Layout
from ...support.console import counted
from ..words import bytes_text, mesh_text, us_text
from .names import Places, short
from .plan_picture import Arrow, draw_moves
from .subject import Subject, subject_of_layout

__all__ = ["plan_cards"]

_MOST_USERS = 4

Json = dict[str, Any]


def plan_cards(trace: Json, places: Places) -> str:
    """A card for each distinct plan, those that cost most in all first, as HTML.

    Args:
        trace: Of the schema ``shardprop/trace/1``.
        places: Its places.
    """
    groups: dict[str, list[Json]] = {}
    for each in trace["redistributions"]:
        if each["steps"]:
            steps = [(step["kind"], step["mesh_dims"]) for step in each["steps"]]
            key = (each["mesh"], each["shape"], each["dtype"], each["text"], steps)
            groups.setdefault(repr(key), []).append(each)
    ordered = sorted(groups.values(), key=lambda group: -_times(group) * group[0]["us"])
    return "\n".join("".join(_card(trace, places, group)) for group in ordered)


def _times(group: Sequence[Json]) -> int:
    return sum(int(each["count"]) for each in group)


def _card(trace: Json, places: Places, group: Sequence[Json]) -> Iterator[str]:
    first = group[0]
    mesh = trace["meshes"][first["mesh"]]
    users = list(dict.fromkeys(_user(places, each) for each in group))
    if len(users) > _MOST_USERS:
        users = [*users[:_MOST_USERS], f"{len(users) - _MOST_USERS} more"]
    tensor = f"{first['dtype']} {first['shape']} on {mesh_text(mesh['dim_names'], mesh['shape'])}"
    costs = (
        f"{us_text(first['us'])} each, {counted(_times(group), 'time')}, "
        f"{bytes_text(first['wire_bytes'])} sent by a rank"
    )
    yield f'<article class="plan"><h3 class="mono">{html.escape(short(first["text"]))}'
    yield f"<span>{html.escape(tensor)}</span></h3>"
    yield f"<p>{costs}</p><p>{html.escape(' · '.join(users))}</p>"
    subjects = _subjects(mesh, first["shape"], first["steps"])
    if subjects is None:
        yield "<p>its layouts cannot be drawn</p>"
    else:
        arrows = [
            Arrow(step["kind"], step["mesh_dims"], step["us"], step["wire_bytes"])
            for step in first["steps"]
        ]
        yield f'<div class="scroll">{draw_moves(subjects, arrows).svg}</div>'
    yield "</article>"


def _user(places: Places, redistribution: Json) -> str:
    op = redistribution["op"]
    what = f"{op}, operand {redistribution['operand']}" if op else "redistribute()"
    where = places.where(redistribution["place"])
    return f"{what} ({where})" if where else what


def _subjects(mesh: Json, shape: object, steps: Sequence[Json]) -> list[Subject] | None:
    """The layouts that a plan passes through; None if there is none to draw: sizes that are
    expressions, placements of another kind."""
    if not isinstance(shape, list) or not all(isinstance(size, int) for size in shape):
        return None
    layouts = [_layout(each) for each in (steps[0]["before"], *(step["after"] for step in steps))]
    found = [
        subject_of_layout(each, shape, mesh["shape"], mesh["dim_names"]) for each in layouts if each
    ]
    return found if len(found) == len(layouts) else None


def _layout(layout: Json) -> Layout | None:
    placements = [_placement(each) for each in layout["placements"]]
    known = tuple(each for each in placements if each is not None)
    order = tuple((dim, tuple(mesh_dims)) for dim, mesh_dims in layout["shard_order"])
    return Layout(known, order) if len(known) == len(placements) else None


def _placement(given: Json) -> Placement | None:
    kind = given["kind"]
    if kind == "replicate":
        return Replicate()
    if kind == "partial":
        return Partial(given["reduce"])
    if kind == "shard":
        return Shard(given["dim"])
    if kind == "strided_shard" and isinstance(given["split_factor"], int):
        return StridedShard(given["dim"], split_factor=given["split_factor"])
    return None
